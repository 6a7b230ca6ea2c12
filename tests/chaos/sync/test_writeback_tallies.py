"""Write-back is killed under load: what it says of the records is what became of them, record by record."""

import json
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path

from enrich.kafka import DeliveringProducer
from enrich.tally import Node, NodeKind
from tests.support.kafka.producing import producing
from tests.support.observe.told import below, places, told
from tests.support.processes import kill
from tests.support.seed import rounds
from tests.support.sync.service import SHORT_SESSIONS, Program, SyncWorld
from tests.support.waiting import wait_until


def load(world: SyncWorld) -> AbstractContextManager[None]:
    """About a thousand rows a second, of which one in fifty is none."""

    def one(producer: DeliveringProducer, number: int) -> None:
        value = b"no row" if number % 50 == 0 else json.dumps({"plan": f"p{number}", "rps": 1}).encode()
        producer.produce(world.topic, b"k%d" % (number % 300), value)

    return producing(world.cluster, one)


def test_all_that_is_committed_was_told_and_in_the_end_everything(world: SyncWorld, tmp_path: Path) -> None:
    node = Node(world.name, NodeKind.writeback, "out")
    data = {**world.data(world.to_redis()), "tallies": True}
    data["kafka"]["client"] = SHORT_SESSIONS
    with ExitStack() as held:
        with load(world):
            for number in range(rounds(1, 20) + 1):
                instance = Program(tmp_path / str(number), data)
                held.callback(instance.close)
                before = sum(world.committed().values())
                wait_until(lambda: sum(world.committed().values()) > before + 200, deadline_s=120, what="commits")  # noqa: B023
                if number < rounds(1, 20):
                    kill(instance.process.pid)
                    done = below(world.topic, world.committed().items())
                    merged = told(world.cluster, world.name)
                    assert done <= places(merged.of(node).known)
                    assert done <= places(merged.reads[node])
        ends = world.cluster.topics.end_offsets(world.topic)
        wait_until(lambda: world.committed() == ends, deadline_s=120, what="the commit of all rows")
        assert instance.stop() == 0
    tally = told(world.cluster, world.name).of(node)
    letters = {tuple(place.split("/")) for place in world.dead_letters()}
    dead = {(topic, int(partition), int(offset)) for topic, partition, offset in letters}
    assert len(dead) > 10
    assert places(tally.dead) == dead
    assert places(tally.came) == below(world.topic, ends.items())
    assert places(tally.went) == places(tally.came) - dead
    assert not tally.waiting
