"""kill -9 of the driver in the middle of a batch while the tables change: with pins the batch is repeated as it was."""

from collections import Counter

from tests.support.seed import SOAK, random_source, rounds
from tests.support.stage.world import PINNABLE, StageWorld, running_stage
from tests.support.waiting import wait_until

LOOKUP = {"table": "users", "key": "user_id", "as": "user"}
BATCH = 10_000
# One task after the other: the first one's records are there while the second is still at work.
ONE_CORE = ("--master", "local[1,4]")


def killed_in_the_middle(world: StageWorld, stage: str) -> int:
    """Returns how many records it had written, at least one of a batch and not all of them."""
    before = world.records(stage)
    with running_stage(world, stage, *ONE_CORE) as running:
        wait_until(lambda: world.records(stage) > before or running.has_ended(), what="records")
        assert not running.has_ended(), running.told()
        running.kill()
    return world.records(stage) - before


def finished(world: StageWorld, stage: str, events: int) -> dict[int, Counter[bytes]]:
    """Runs until all events are done with; returns their copies."""
    with running_stage(world, stage, *ONE_CORE) as running:

        def all_there():
            assert not running.has_ended(), running.told()
            return world.records(stage) >= events and len(world.seen(stage)) >= events

        wait_until(all_there, what="all events")
        running.tell()
        assert running.end() == 0, running.told()
    return world.copies(stage)


def prepared(world: StageWorld, replay: str) -> str:
    world.users(**PINNABLE)
    settings = {"maxOffsetsPerTrigger": BATCH}
    stage = world.stage("enrich", [LOOKUP], replay=replay, lineage=True, settings=settings)
    world.send(stage, [{"id": number, "user_id": "ann", "payload": "x" * 200} for number in range(3 * BATCH)])
    return stage


def test_with_pins_each_copy_of_an_event_is_the_same_and_one_batch_at_most_is_repeated(world):
    stage = prepared(world, "deterministic")
    wiped = random_source("wiped stores").random() < 0.5
    for number in range(rounds(1, 8)):
        written = killed_in_the_middle(world, stage)
        world.put("users", {"ann": {"plan": f"plan-{number}", "region": None}})
        if number % 2 == wiped:
            world.wipe_store()
        assert written
    copies = finished(world, stage, 3 * BATCH)
    assert len(copies) == 3 * BATCH
    assert all(len(values) == 1 for values in copies.values()), "copies of an event differ"
    repeated = sum(values.total() - 1 for values in copies.values())
    assert 0 < repeated <= rounds(1, 8) * BATCH


if SOAK:  # what the tests of tests/integration/stage/test_replay.py show without a kill

    def test_without_pins_copies_of_an_event_differ(world):
        stage = prepared(world, "latest")
        killed_in_the_middle(world, stage)
        world.put("users", {"ann": {"plan": "another", "region": None}})
        copies = finished(world, stage, 3 * BATCH)
        assert len(copies) == 3 * BATCH
        assert any(len(values) > 1 for values in copies.values()), "the test shows nothing"
