"""What an endpoint does not take now waits in retry topics, comes back, and is delivered or dead in the end."""

import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, closing

import pytest
from confluent_kafka import Message, TopicPartition

from edge_service.expel import waiting_events
from enrich.kafka import Topics, new_group_consumer
from enrich.kafka.records import headers_of
from enrich.kafka.writing.whole_transactions import WholeTransactions
from tests.support.edge.expel import Endpoint, ExpelWorld, by_key, expelling
from tests.support.edge.retries import running
from tests.support.kafka.topics import Cluster, delete_records
from tests.support.seed import random_source
from tests.support.servers.scripted_endpoint import whole
from tests.support.waiting import GUARD_S, wait_until


def world_of(cluster: Cluster, *pauses: str, **section: object) -> ExpelWorld:
    made = ExpelWorld(cluster, pauses=pauses, section={"batch": {"events": 10}, **section})
    made.make()
    return made


def test_an_event_is_tried_again_after_each_pause_and_then_dead(cluster: Cluster) -> None:
    world = world_of(cluster, "1s", "6s", local={"tries": 2, "first": "5ms"})

    def is_well(one: int) -> bool:
        """Five are, once they have waited the second time: however long whoever looks takes to see that."""
        return one >= 10 or (one < 5 and one in world.waiting("6s"))

    def decide(ids: list[int]) -> int:
        return 200 if all(map(is_well, ids)) else 503

    with Endpoint(decide) as endpoint:
        world.url = endpoint.url()
        world.produce(range(100), headers=lambda one: [("trace", b"%d" % one)])
        with expelling(world), running(world):
            wait_until(lambda: set(world.dead()) == set(range(5, 10)), what="the dead ones")
            endpoint.wait_for({*range(100)} - {*range(5, 10)})
            world.wait_until_all_is_committed()
        assert endpoint.delivered == Counter({*range(100)} - {*range(5, 10)})
    letter = world.dead()[7]
    assert letter.reason == "HTTP 503; it was tried again after each pause"
    assert (letter.headers["enrich.topic"], letter.headers["trace"]) == (world.topic().encode(), b"7")
    assert "enrich.tries" not in letter.headers
    tries = {
        pause: {dict(headers_of(message))["enrich.tries"] for message in cluster.messages(world.retry_in(pause))}
        for pause in world.pauses
    }
    assert tries == {"1s": {b"1"}, "6s": {b"2"}}


@pytest.mark.parametrize(
    ("said", "pause"),
    [
        ("20", "30s"),
        ("Sat, 01 Jan 2000 00:00:20 GMT", "30s"),
        ("Fri, 31 Dec 9999 23:59:59 GMT", "1h"),
        ("soon", "1s"),
        ("0", "1s"),
    ],
)
def test_retry_after_chooses_the_pause(cluster: Cluster, said: str, pause: str) -> None:
    world = world_of(cluster, "1s", "30s", "5m", "1h", local={"tries": 2, "first": "5ms", "budget": "1s"})
    headers = [("retry-after", said), ("date", "Sat, 01 Jan 2000 00:00:00 GMT")]  # its clock is behind
    with Endpoint(lambda _: whole(503, headers=headers)) as endpoint:
        world.url = endpoint.url()
        world.produce([0])
        with expelling(world):
            wait_until(lambda: world.waiting(pause) == Counter([0]), what="the event")
            world.wait_until_all_is_committed()
        counted = dict(headers_of(world.cluster.messages(world.retry_in(pause))[0]))["enrich.tries"]
        if pause != "1s":  # the endpoint says when: that is no try, and it is asked no sooner
            assert (len(endpoint.got), counted) == (1, b"0")
        elif said != "0":
            assert (len(endpoint.got), counted) == (2, b"1")


def test_what_is_older_than_max_age_is_dead_and_not_sent(cluster: Cluster) -> None:
    world = world_of(cluster, "1s", max_age="1h")
    now_ms = time.time_ns() // 10**6
    with Endpoint() as endpoint:
        world.url = endpoint.url()
        world.produce(range(10), timestamp_ms=now_ms - 2 * 3_600_000)
        world.produce(range(10, 20))
        with expelling(world):
            world.wait_until_all_is_committed()
            wait_until(lambda: set(world.dead()) == set(range(10)), what="the dead ones")
        assert endpoint.sent == Counter(range(10, 20))
    assert {letter.reason for letter in world.dead().values()} == {"older than 1h"}


def test_an_event_becomes_too_old_while_it_waits_for_the_endpoint(cluster: Cluster) -> None:
    world = world_of(cluster, "1s", max_age="3s")
    world.url = "http://127.0.0.1:1/hook"
    with expelling(world), running(world):
        world.produce(range(200))
        wait_until(lambda: set(world.dead()) == set(range(200)), what="the dead ones")
        world.wait_until_all_is_committed()


def test_the_events_of_a_key_keep_their_order_through_retries_and_restarts(cluster: Cluster) -> None:
    """Some keys fail for a while, others sometimes; instances end and begin, without kills."""
    world = world_of(cluster, "1s", "2s", order="key", local={"tries": 1})
    chance = random_source("order")
    keys, events = 20, 1_000
    sick = set(range(0, keys, 4))

    def decide(ids: list[int]) -> int:
        return 503 if any(one % keys in sick for one in ids) or chance.random() < 0.05 else 200

    def produce(ids: range) -> None:
        world.produce(ids, key=lambda one: b"%d" % (one % keys), partition=lambda one: one % keys % 2)

    with Endpoint(decide) as endpoint:
        world.url = endpoint.url()
        with running(world):
            for part in range(4):
                produce(range(part * events // 4, (part + 1) * events // 4))
                with expelling(world) as one:
                    wait_until(lambda one=one: one.count("requests") > 10, what="some requests")  # type: ignore[misc] # a default binds the loop's value
                    if part == 3:
                        sick.clear()
                        done = lambda: {*endpoint.delivered, *world.dead()} >= {*range(events)}  # noqa: E731
                        wait_until(done, what="all events")
                        world.wait_until_all_is_committed()
        assert endpoint.delivered + Counter(world.dead().keys()) == Counter(range(events))
    for ids in by_key(endpoint.got, lambda one: one % keys).values():
        assert ids == sorted(ids)


def test_a_route_that_keeps_the_order_needs_no_retries(cluster: Cluster) -> None:
    world = world_of(cluster, order="key")
    with Endpoint(lambda ids: 500 if 7 in ids else 200) as endpoint:
        world.url, world.section = endpoint.url(), {**world.section, "retries": [], "batch": {"events": 1}}
        world.produce(range(100), key=lambda one: b"%d" % (one % 10))
        with expelling(world):
            world.wait_until_all_is_committed()
        assert endpoint.delivered == Counter({*range(100)} - {7})
    assert set(world.dead()) == {7}


@pytest.mark.parametrize("order", ["none", "key"])
def test_what_waits_is_delivered_although_the_route_has_no_pauses_any_more(cluster: Cluster, order: str) -> None:
    world = world_of(cluster, "1s", local={"tries": 1}, order=order)
    with Endpoint(lambda _: 503) as endpoint:
        world.url = endpoint.url()
        world.produce(range(10))
        with expelling(world):
            wait_until(lambda: world.waiting() == Counter(range(10)), what="the events that wait")
            world.wait_until_all_is_committed()
        endpoint.decide = lambda _: 200
        world.section = {**world.section, "retries": []}
        with expelling(world), running(world):
            endpoint.wait_for(range(10))
        assert endpoint.delivered == Counter(range(10))


def test_the_order_of_a_key_holds_also_behind_an_event_whose_pause_is_another_one_now(cluster: Cluster) -> None:
    world = world_of(cluster, "2s", local={"tries": 1}, order="key")
    with Endpoint(lambda _: 503) as endpoint:
        world.url = endpoint.url()
        world.produce([0], key=lambda _: b"one key")
        with expelling(world):
            wait_until(lambda: world.waiting() == Counter([0]), what="the event that waits")
            world.wait_until_all_is_committed()
        endpoint.decide = lambda _: 200
        world.pauses = ("1s",)
        world.produce([1], key=lambda _: b"one key", partition=lambda _: 0)
        with expelling(world), running(world):
            endpoint.wait_for([0, 1])
        assert [one for request in endpoint.got if request.status == 200 for one in request.ids] == [0, 1]


def test_an_event_that_is_forwarded_while_its_partition_is_taken_over_is_delivered_once(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The retrier has written it already, and commits that once the new owner has seen what it had committed before."""
    world = world_of(cluster, "1s", order="key", local={"tries": 1})
    with Endpoint(lambda _: 503) as endpoint, ExitStack() as held:
        world.url = endpoint.url()
        world.produce([0])
        with expelling(world):
            wait_until(lambda: world.waiting() == Counter([0]), what="the event")
            world.wait_until_all_is_committed()
        endpoint.decide = lambda _: 200
        (message,) = cluster.messages(world.retry_in())
        member = held.enter_context(closing(new_group_consumer(cluster.connection, world.group())))
        retrier = held.enter_context(closing(WholeTransactions(cluster.connection, f"{world.name}.test")))
        retrier.start()
        transaction = retrier.transaction()
        transaction.__enter__()
        retrier.produce_all(world.retry_out(), [(message.key(), message.value(), headers_of(message), 0)])
        written = Topics.written_offsets
        wait_until(lambda: cluster.topics.written_offsets(world.retry_out())[0] == 1, what="the record")
        is_committed = False

        def commits(topics: Topics, name: str) -> dict[int, int]:
            nonlocal is_committed
            if name == world.retry_in() and not is_committed:
                is_committed = True
                done = [TopicPartition(world.retry_in(), 0, 1)]
                retrier.send_offsets(done, member.consumer_group_metadata())
                transaction.__exit__(None, None, None)
            return written(topics, name)

        monkeypatch.setattr(Topics, "written_offsets", commits)
        with expelling(world):
            endpoint.wait_for([0], deadline_s=20)
        assert is_committed and endpoint.delivered == Counter([0])


def test_what_the_brokers_remove_from_a_retry_topic_keeps_no_later_event_of_its_key_waiting(cluster: Cluster) -> None:
    world = world_of(cluster, "1s", order="key", local={"tries": 1})
    with Endpoint(lambda _: 503) as endpoint:
        world.url = endpoint.url()
        with expelling(world):
            world.produce([0], key=lambda _: b"key")
            wait_until(lambda: world.waiting() == Counter([0]), what="the event")
            delete_records(cluster.connection, world.retry_in(), {0: 1})
            endpoint.decide = lambda _: 200
            world.produce([2], key=lambda _: b"key")
            with running(world):
                endpoint.wait_for([2], deadline_s=60)
        assert endpoint.delivered == Counter([2])


def test_a_stop_does_not_wait_until_all_that_waits_is_read(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    reads = threading.Event()

    def read_without_end(*_: object, **__: object) -> Iterator[list[Message]]:
        while True:
            reads.set()
            yield []

    monkeypatch.setattr(waiting_events, "read_to_end", read_without_end)
    with expelling(world_of(cluster, "1h", order="key")) as expel:
        assert reads.wait(GUARD_S)
    assert not expel.service.left  # it had begun nothing


def test_what_the_brokers_remove_from_a_retry_topic_while_its_route_begins_stops_no_route(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = world_of(cluster, "1s", order="key", local={"tries": 1})
    with Endpoint(lambda _: 503) as endpoint:
        world.url = endpoint.url()
        world.produce([0, 2])
        with expelling(world):
            wait_until(lambda: world.waiting() == Counter([0, 2]), what="the events")
            world.wait_until_all_is_committed()
        endpoint.decide = lambda _: 200
        written = Topics.written_offsets
        removed = 0

        def removes(topics: Topics, name: str) -> dict[int, int]:
            nonlocal removed
            if name == world.retry_in() and not removed:
                removed = 1
                delete_records(cluster.connection, name, {0: removed})
            return written(topics, name)

        monkeypatch.setattr(Topics, "written_offsets", removes)
        with expelling(world):
            wait_until(lambda: removed, what="that it looks for what waits")
            with running(world):
                endpoint.wait_for([2], deadline_s=60)
        assert removed and endpoint.delivered == Counter([2])
