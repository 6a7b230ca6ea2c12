"""Brokers go away, topics are deleted, made again or get more partitions, and take less than they should."""

import json
import time
from base64 import b64decode, b64encode
from collections import Counter
from contextlib import ExitStack, closing, suppress
from pathlib import Path

import pytest

from edge_service.expel.route import ExpelRoute
from enrich.kafka.records import headers_of
from enrich.kafka.writing.whole_transactions import WholeTransactions
from tests.support.edge.expel import Endpoint, ExpelWorld, expelling
from tests.support.edge.retries import running
from tests.support.kafka.topics import Cluster, delete_records
from tests.support.seed import random_source, variants
from tests.support.sync.service import SHORT_SESSIONS
from tests.support.waiting import wait_until, when_reachable


@pytest.fixture
def world(cluster: Cluster) -> ExpelWorld:
    section = {"batch": {"events": 10}, "local": {"tries": 1}}
    made = ExpelWorld(cluster, pauses=("1s", "2s", "5s", "1m"), section=section)
    made.make()
    return made


def test_brokers_that_go_away_and_come_back_cost_no_event(world: ExpelWorld) -> None:
    with Endpoint(lambda ids: 503 if 17 in ids else 200) as endpoint:
        world.url = endpoint.url()
        world.produce(range(1_000))
        with expelling(world):
            endpoint.wait_for(range(0, 100, 2))
            with world.cluster.brokers_away():
                # Past the end of its session: another member would have its partitions by now.
                end = time.monotonic() + 2 * SHORT_SESSIONS["session.timeout.ms"] / 1000
                wait_until(lambda: time.monotonic() > end, what="the end of its session")
            when_reachable(lambda: world.produce(range(1_000, 1_100)))
            world.wait_until_all_is_committed()
        assert endpoint.delivered.keys() | world.waiting().keys() == {*range(1_100)}


@pytest.mark.parametrize("count", variants(50, 500))
def test_of_a_topic_that_is_made_again_all_events_are_delivered(world: ExpelWorld, count: int) -> None:
    """Whether it has fewer events than the old one, or more."""
    with Endpoint() as endpoint:
        world.url = endpoint.url()
        world.produce(range(200))
        with expelling(world):
            endpoint.wait_for(range(200))
            world.wait_until_all_is_committed()
            world.cluster.make_again(world.topic(), partitions=2)
            world.produce(range(1_000, 1_000 + count))
            endpoint.wait_for(range(1_000, 1_000 + count))
            world.wait_until_all_is_committed()


def test_the_dead_letters_of_a_topic_that_is_made_again_stand_beside_those_of_the_old_one(cluster: Cluster) -> None:
    """Of events that are refused at once, and of those that were tried again after their pauses."""
    world = ExpelWorld(cluster, pauses=("1s",), section={"batch": {"events": 1}, "local": {"tries": 1}}, partitions=1)
    world.make()
    topic, ids = world.topic(), [world.cluster.topics.topic_id(world.topic())]

    def letters() -> dict[bytes, bytes]:
        found = cluster.messages(world.dlq()) if cluster.topics.exists(world.dlq()) else []
        return {bytes(message.key() or b""): bytes(message.value() or b"") for message in found}

    with Endpoint(lambda ids: 422 if ids[0] % 2 else 503) as endpoint:
        world.url = endpoint.url()
        with expelling(world), running(world):
            world.produce([1, 2])
            wait_until(lambda: len(letters()) == 2, deadline_s=60, what="the letters of the old topic")
            world.wait_until_all_is_committed()
            cluster.make_again(topic, partitions=1)
            ids.append(cluster.topics.topic_id(topic))
            world.produce([11, 12])
            wait_until(lambda: {b"11", b"12"} <= {*letters().values()}, deadline_s=60, what="those of the new one")
        sender = f"{world.name}.expel.acme"
        wanted = [(ids[0], 0, b"1"), (ids[0], 1, b"2"), (ids[1], 0, b"11"), (ids[1], 1, b"12")]
        assert letters() == {f"{topic}/0/{offset}/{sender}/{of}".encode(): value for of, offset, value in wanted}
        headers = [name for message in cluster.messages(world.dlq()) for name, _ in headers_of(message)]
        assert "enrich.topic_id" not in headers


def test_events_of_a_topic_that_is_made_again_are_no_copies_of_those_that_wait_since_before(cluster: Cluster) -> None:
    """They have the same keys and offsets: they go behind them, and are delivered."""
    section = {"batch": {"events": 1}, "local": {"tries": 1}, "order": "key"}
    world = ExpelWorld(cluster, pauses=("1s",), section=section, partitions=1)
    world.make()
    with Endpoint(lambda _: 503) as endpoint:
        world.url = endpoint.url()
        world.produce([0, 1], key=lambda _: b"one key")
        with expelling(world):
            wait_until(lambda: world.waiting() == Counter([0, 1]), what="the events that wait")
            world.wait_until_all_is_committed()
        cluster.make_again(world.topic(), partitions=1)
        world.produce([10, 11], key=lambda _: b"one key")
        endpoint.decide = lambda _: 200
        with expelling(world), running(world):
            endpoint.wait_for([0, 1, 10, 11])
        assert [one for request in endpoint.got if request.status == 200 for one in request.ids] == [0, 1, 10, 11]


@pytest.mark.parametrize("order", variants("none", "key"))
def test_partitions_that_come_later_are_delivered_too(world: ExpelWorld, order: str) -> None:
    sick = True
    with Endpoint(lambda ids: 503 if sick and ids[0] % 7 == 0 else 200) as endpoint:
        world.url, world.section = endpoint.url(), {**world.section, "order": order, "batch": {"events": 1}}
        with expelling(world), running(world):
            world.produce(range(100))
            endpoint.wait_for([1, 2])
            world.add_partitions(5)
            world.produce(range(100, 200), partition=lambda one: one % 5)
            wait_until(lambda: {101, 102, 103} <= endpoint.delivered.keys(), what="events of the new partitions")
            sick = False
            endpoint.wait_for(range(200))
            world.wait_until_all_is_committed()
        assert endpoint.delivered == Counter(range(200))


@pytest.mark.parametrize("which", variants("retry_in", "retry_out"))
def test_a_retry_topic_that_is_deleted_stops_nothing(world: ExpelWorld, which: str) -> None:
    sick = True
    with Endpoint(lambda ids: 503 if sick and min(ids) >= 100 else 200) as endpoint:
        world.url = endpoint.url()
        topic = getattr(world, which)()
        with expelling(world), running(world):
            world.produce(range(100))
            endpoint.wait_for(range(100))
            world.cluster.topics.delete(topic)
            world.produce(range(100, 200))
            wait_until(lambda: world.waiting().keys() >= {*range(100, 200)}, what="the events that wait")
            sick = False
            endpoint.wait_for(range(100, 200))


def test_what_the_dlq_does_not_take_whole_is_cut_and_what_it_takes_in_no_form_is_in_a_file(
    cluster: Cluster, tmp_path: Path
) -> None:
    world = ExpelWorld(cluster, section={"batch": {"events": 10}}, state_dir=str(tmp_path))
    world.make(max_message_bytes="3000000")
    world.cluster.topics.create(world.dlq(), config={"cleanup.policy": "compact", "max.message.bytes": "2000"})
    world.client = {"max.request.size": 4_000_000}
    big = {1: b'{"id": 1, "x": "%b"}' % (b"x" * 2_000_000), 2: b'{"id": 2, "x": "%b"}' % (b"x" * 3_000)}
    keys = {3: b"k" * 500_000}
    with Endpoint(lambda ids: 422 if {1, 2, 3} & set(ids) else 200) as endpoint:
        world.url = endpoint.url()
        large = ExpelWorld(Cluster({**cluster.connection, "message.max.bytes": 4_000_000}), name=world.name)
        large.produce(range(6), value=lambda one: big.get(one, b"%d" % one), key=lambda one: keys.get(one, b"k"))
        with expelling(world) as running_:
            world.wait_until_all_is_committed()
            assert endpoint.delivered == Counter([0, 4, 5])
            spilled = running_.count("dead_letters_spilled")
    letters = world.letters()
    places = {(1, 0): b'{"id": 1', (0, 1): b'{"id": 2'}
    assert {place: letters[place].value[:8] for place in places} == places
    assert letters[1, 0].headers["enrich.length"] == b"%d" % len(big[1])
    file = tmp_path / world.name / "expel" / "acme.dead-letters.jsonl"
    kept = [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []
    assert len(kept) == spilled
    third = [b64decode(line["value"]) for line in kept] + [letters[1, 1].value] * ((1, 1) in letters)
    assert third == [b"3"]


def test_a_transaction_that_was_given_up_leaves_nothing_that_seems_to_wait(world: ExpelWorld) -> None:
    writer = WholeTransactions(world.cluster.connection, world.name)
    with closing(writer), suppress(InterruptedError):
        writer.start()
        with writer.transaction():
            writer.produce_all(world.topic(), [(None, b"1", [], 0)])
            topics = world.cluster.topics
            wait_until(lambda: topics.written_offsets(world.topic())[0] == 1, what="the record")
            raise InterruptedError
    with Endpoint() as endpoint:
        world.url = endpoint.url()
        with expelling(world) as running:
            world.wait_until_all_is_committed()
            wait_until(lambda: running.status().lag == 0, what="that nothing waits")
        assert not endpoint.got


@pytest.mark.parametrize("partitions", [1, 2])
def test_events_that_are_removed_while_the_route_waits_are_named_once_and_those_it_had_read_are_delivered(
    cluster: Cluster, partitions: int, caplog: pytest.LogCaptureFixture
) -> None:
    """Also beside a partition without events: while the brokers wait for some, the client asks them nothing else."""
    section = {"batch": {"events": 1}, "parallel": 1, "window": {"bytes": "4MiB"}}
    client = {"fetch.max.wait.ms": 3_000}
    world = ExpelWorld(cluster, pauses=(), section=section, partitions=partitions, client=client)
    world.make()
    count, kept = 500, 490  # of 100 kB that cannot be compressed: more than a consumer and a lane read ahead
    texts = [random_source("large events").randbytes(75_000) for _ in range(count)]
    with Endpoint() as endpoint:
        world.url = endpoint.url()
        with expelling(world):
            world.produce(range(10), partition=lambda _: 0)
            world.wait_until_all_is_committed()
        endpoint.decide = lambda _: 503
        world.produce(
            range(10, count),
            value=lambda one: json.dumps({"id": one, "text": b64encode(texts[one]).decode()}).encode(),
            partition=lambda _: 0,
        )
        with expelling(world) as running:
            running.wait_for_state("waiting")
            delete_records(cluster.connection, world.topic(), {0: kept})
            endpoint.decide = lambda _: 200
            endpoint.wait_for(range(kept, count))
            world.wait_until_all_is_committed()
            dead = {offset for _, offset in world.letters()}  # of those that were refused before it waited
            missing = {*range(count)} - endpoint.delivered.keys() - dead
            what = f"records {min(missing)} to {kept} of partition 0 were removed unread"
            assert min(missing) > 10 and missing == {*range(min(missing), kept)}
            assert "does not run" not in caplog.text  # beginning anew it would forget what it had read
            assert running.status().details["warnings"] == [f"events may be lost: {what}"]
            assert running.count("gaps") == 1


def test_what_was_delivered_beyond_a_slow_event_is_not_repeated_although_the_brokers_have_removed_that_event(
    cluster: Cluster,
) -> None:
    section = {"batch": {"events": 1}, "local": {"tries": 20, "first": "1s", "longest": "30s", "budget": "5m"}}
    world = ExpelWorld(cluster, section=section, partitions=1)
    world.make()
    with Endpoint(lambda ids: 503 if 0 in ids else 200) as endpoint:
        world.url = endpoint.url()
        world.produce(range(10))
        with expelling(world):
            endpoint.wait_for(range(1, 10))
        assert world.committed() == {0: 0}
        delete_records(cluster.connection, world.topic(), {0: 5})
        world.produce(range(10, 20))
        with expelling(world):
            world.wait_until_all_is_committed()
        assert endpoint.delivered == Counter(range(1, 20))


def test_a_partition_that_goes_and_comes_back_while_the_route_waits_is_read_on(
    cluster: Cluster, caplog: pytest.LogCaptureFixture
) -> None:
    local = {"tries": 20, "first": "1s", "longest": "30s", "budget": "10m"}
    world = ExpelWorld(cluster, section={"batch": {"events": 1}, "local": local, "window": {"events": 10}})
    world.make()
    with Endpoint(lambda _: 503) as endpoint, ExitStack() as held:
        world.url = endpoint.url()
        one = held.enter_context(expelling(world))

        def partitions() -> float:
            return one.status().gauges.get("partitions", 0.0)

        def is_paused() -> bool:
            (route,) = one._routes
            flow = route._flow if isinstance(route, ExpelRoute) else None
            return flow is not None and all(each.paused for each in flow._assigned.all())

        wait_until(lambda: partitions() >= 2, what="its partitions")
        world.produce(range(100))
        wait_until(is_paused, what="a full window")
        owned = partitions()
        with expelling(world):
            wait_until(lambda: partitions() < owned, what="that another instance has some")
            endpoint.decide = lambda _: 200
            endpoint.wait_for(range(100))
        wait_until(lambda: partitions() == owned, what="that they come back")
        world.produce(range(100, 200))
        endpoint.wait_for(range(200))
    assert "returns nothing" not in caplog.text
