"""kill -9 of everything that a stage consists of, under load: no acknowledged event is missing."""

from collections import Counter
from contextlib import suppress

import psutil

from enrich.agent.place import place_of
from enrich.agent.spawn import living_agent
from tests.support.processes import kill
from tests.support.seed import random_source, rounds
from tests.support.stages import Load, running_stage
from tests.support.waiting import wait_until

LOOKUP = {"table": "users", "key": "user_id", "as": "user", "on_miss": "dlq"}


def worker_of(running):
    """A Python worker of the stage: a child of Spark's daemon, which is a child of the JVM."""
    parents = {}
    for child in psutil.Process(running.pid).children(recursive=True):
        with suppress(psutil.Error):  # it has ended meanwhile
            # Not whoever is only told of it: the JVM, and what starts that.
            if child.cmdline()[1:3] == ["-m", "enrich.stage.daemon"]:
                parents[child.pid] = child.ppid()
    return next((pid for pid, parent in parents.items() if parent in parents), None)


def agent_of(world):
    header = living_agent(place_of(world.pipeline))
    return None if header is None else header.pid


def more(world, stage, number, running):
    """Records of whoever writes: for a moment that may still be the JVM of a driver that was killed."""
    before = world.records(stage)

    running.wait_until(lambda: world.records(stage) >= before + number, what="further output")


def test_no_acknowledged_event_is_missing_after_kills_of_driver_worker_and_agent(world):
    world.users()
    stage = world.stage("enrich", [LOOKUP])
    source = random_source("stage kills")
    kills = 0
    with Load(world, stage) as load:
        for _ in range(rounds(2, 10)):
            with running_stage(world, stage) as running:
                more(world, stage, 500, running)
                for victim in source.sample([lambda: agent_of(world), lambda: worker_of(running)], 2):
                    kill(wait_until(victim, deadline_s=120, what="the process to kill"))
                    more(world, stage, 500, running)
                kill(running.pid)
                kills += 1
    with running_stage(world, stage) as running:
        wait_until(lambda: len(world.ids(stage)) >= load.sent, deadline_s=120, what="all events")
        running.tell()
        assert running.end() == 0, running.told()
    copies = world.ids(stage)
    assert set(copies) == set(range(load.sent))
    # A driver that was killed repeats its last second and a batch, a worker's task what it had written of its batch.
    assert Counter(copies.values()).keys() <= set(range(1, 2 + 3 * kills))
    assert sum(copies.values()) - load.sent <= load.largest_backlog * 3 * kills
