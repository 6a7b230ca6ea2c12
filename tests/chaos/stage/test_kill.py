"""kill -9 of everything that a stage consists of, under load: no acknowledged event is missing."""

from collections import Counter

from tests.support.processes import kill, python_workers
from tests.support.seed import random_source, rounds
from tests.support.stages import Load, running_stage
from tests.support.waiting import wait_until

LOOKUP = {"table": "users", "key": "user_id", "as": "user", "on_miss": "dlq"}


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
                for victim in source.sample(
                    [world.agent_pid, lambda: next(iter(python_workers(running.pid)), None)], 2
                ):
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
