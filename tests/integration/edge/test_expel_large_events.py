"""Events come to their retry topics, and to the DLQ, as large as these topics take them."""

import random
from pathlib import Path

from tests.support.edge.expel import Endpoint, ExpelWorld, expelling
from tests.support.edge.retries import running
from tests.support.kafka.topics import Cluster
from tests.support.waiting import wait_until

_LARGE = 2_000_000


def _padded(one: int, size: int) -> bytes:
    """With what cannot be compressed to much less."""
    return b'{"id": %d, "x": "%b"}' % (one, random.Random(one).randbytes(size // 2).hex().encode())


def test_an_event_larger_than_a_megabyte_is_tried_again_and_its_dead_letter_is_in_the_dlq(
    cluster: Cluster, tmp_path: Path
) -> None:
    """Without a word about it in the configuration."""
    world = ExpelWorld(cluster, state_dir=str(tmp_path))
    world.make(max_message_bytes=str(2 * _LARGE))
    anything = {"cleanup.policy": "compact", "max.message.bytes": str(2**31 - 1)}  # more than a producer may be told
    cluster.topics.create(world.dlq(), config=anything)
    large = ExpelWorld(Cluster({**cluster.connection, "message.max.bytes": 2 * _LARGE}), name=world.name)
    large.produce([7], value=lambda one: _padded(one, _LARGE))
    with Endpoint(lambda _: 503) as endpoint:
        world.url = endpoint.url()
        with expelling(world) as expel, running(world):
            wait_until(lambda: expel.count("dead_letters") == 1, what="its dead letter")
            world.wait_until_all_is_committed()
    assert not [*tmp_path.rglob("*.jsonl")]
    ((_, letter),) = world.letters().items()
    assert letter.reason == "HTTP 503; it was tried again after each pause"
    assert letter.value == _padded(7, _LARGE)


def test_events_that_a_retry_topic_takes_one_by_one_get_there_however_many_come_at_once(cluster: Cluster) -> None:
    world = ExpelWorld(cluster, pauses=("1h",), section={"batch": {"events": 100}})
    world.make()
    cluster.topics.create(world.retry_in(), partitions=2, config={"max.message.bytes": "5000"})
    world.produce(range(100), value=lambda one: _padded(one, 1_000))
    with Endpoint(lambda _: 503) as endpoint:
        world.url = endpoint.url()
        with expelling(world):
            world.wait_until_all_is_committed()
    assert not world.letters()
    assert sum(world.cluster.topics.end_offsets(world.retry_in()).values()) == 100
