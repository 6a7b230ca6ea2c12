"""kill -9 of everything that a stage consists of, under load: no acknowledged event is missing."""

import pytest

from enrich.tally import Merged, Node, NodeKind, Origins, decoded
from tests.support.processes import kill, python_workers
from tests.support.seed import random_source, rounds, variants
from tests.support.stage.world import PINNABLE, Load, run_to_the_end, running_stage
from tests.support.waiting import wait_until

LOOKUP = {"table": "users", "key": "user_id", "as": "user", "on_miss": "dlq"}
BATCH = 2_000
REPLAYS = {
    "latest": {},
    "deterministic": {"lineage": True, "settings": {"maxOffsetsPerTrigger": BATCH}},
}
LARGEST_REPEAT = {"latest": Load.largest_backlog, "deterministic": BATCH}
"""How many events come once more after a kill, at most. Of a driver: all since its progress was last recorded and the
batch under way, or that batch alone. Of a worker: what its task had written of a batch. Of an agent: none."""


def more(world, stage, number, running):
    """Records of whoever writes: for a moment that may still be the JVM of a driver that was killed."""
    before = world.records(stage)
    running.wait_until(lambda: world.records(stage) >= before + number, what="further output")


def assert_told(world, stage):
    """The union of the tallies is what a plain consumer finds: nothing missing, nothing invented."""
    merged = Merged()
    for message in world.cluster.messages(str(world.pipeline.tallies_topic)):
        merged.take(decoded(message.value()))
    said = merged.of(Node(world.pipeline.name, NodeKind.stage, stage))
    topic = world.topic(f"{stage}.in")
    came = Origins.of_ranges((topic, p, 0, end - 1) for p, end in world.cluster.topics.end_offsets(topic).items())
    went = {dict(message.headers())["enrich.origin"] for message in world.cluster.messages(world.topic(f"{stage}.out"))}
    dead = {b"/".join(message.key().split(b"/")[:3]) for message in world.dead_letters(stage)}
    assert said.came == came
    assert origins_of(said.went) == went
    assert origins_of(said.dead) == dead


def origins_of(origins):
    ranges = origins.ranges()
    return {b"%s/%d/%d" % (t.encode(), p, offset) for t, p, first, last in ranges for offset in range(first, last + 1)}


@pytest.mark.parametrize("replay", variants(*REPLAYS))
def test_no_acknowledged_event_is_missing_after_kills_of_driver_worker_and_agent(world, replay):
    world.users(**PINNABLE)
    world.document["tallies"] = True
    stage = world.stage("enrich", [LOOKUP], replay=replay, **REPLAYS[replay])
    source = random_source(f"stage kills, {replay}")
    kills = {"driver": 0, "worker": 0, "agent": 0}
    with Load(world, stage) as load:
        for number in range(rounds(1, 10)):
            with running_stage(world, stage) as running:
                victims = {
                    "agent": world.agent_pid,
                    "worker": lambda: next(iter(python_workers(running.pid)), None),
                }
                more(world, stage, 500, running)
                for victim in source.sample(sorted(victims), 2):
                    kill(wait_until(victims[victim], what=f"the {victim}"))
                    kills[victim] += 1
                    world.put("users", {"ann": {"plan": f"{number}, after the {victim}", "region": None}})
                    more(world, stage, 500, running)
                kill(running.pid)
                kills["driver"] += 1
    run_to_the_end(world, stage, load)
    copies = world.copies(stage)
    assert set(copies) == set(range(load.sent))
    repeating = kills["driver"] + kills["worker"]
    assert max(each.total() for each in copies.values()) <= 1 + repeating
    assert sum(each.total() - 1 for each in copies.values()) <= LARGEST_REPEAT[replay] * repeating
    assert_told(world, stage)
    if replay == "deterministic":
        assert all(len(values) == 1 for values in copies.values()), "copies of an event differ"
