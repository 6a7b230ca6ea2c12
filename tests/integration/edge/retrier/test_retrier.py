"""The retrier on a real broker: what has waited for its pause comes out once, as it went in, and nothing blocks it."""

import threading
import time
from collections import Counter
from typing import Any

import pytest

from edge_service.retrier.reading import Reading
from enrich.base.errors import Retryable
from enrich.kafka import DeliveringProducer
from enrich.kafka.records import headers_of
from enrich.kafka.retries import retry_headers
from tests.support.edge.retries import RetryWorld, Running, content, event_headers, running
from tests.support.kafka.topics import Cluster, delete_records
from tests.support.links.cut_link import HOST, CutLink
from tests.support.seed import random_source
from tests.support.waiting import wait_until

AHEAD_MS = 3_000_000


@pytest.fixture
def world(cluster: Cluster) -> RetryWorld:
    made = RetryWorld(cluster)
    made.make_topics()
    return made


def test_an_event_comes_out_as_it_went_in_and_not_before_its_pause(world: RetryWorld) -> None:
    with running(world):
        world.put(range(10))
        world.wait_for(range(10))
    went_in, came_out = world.cluster.messages(world.retry_in()), world.cluster.messages(world.retry_out())
    assert sorted(map(content, came_out)) == sorted(map(content, went_in))
    since = {message.value(): message.timestamp()[1] for message in went_in}
    waited = [message.timestamp()[1] - since[message.value()] for message in came_out]
    assert min(waited) >= 1000


def test_events_come_out_once_also_after_restarts(world: RetryWorld) -> None:
    for begin in (0, 100, 200):
        world.put(range(begin, begin + 100))
        with running(world):
            world.wait_for(range(begin + 100))
    assert world.came_out() == Counter(range(300))


def test_timestamps_far_in_the_future_hold_nothing_up(world: RetryWorld) -> None:
    with running(world):
        # Brokers refuse what is more than an hour in the future.
        world.put(range(20), timestamp_ms=time.time_ns() // 1_000_000 + AHEAD_MS)
        world.put(range(20, 40))
        world.wait_for(range(40))
    assert world.came_out() == Counter(range(40))


def test_an_instance_without_partitions_stands_by_again_once_brokers_answer_again(cluster: Cluster) -> None:
    port = int(cluster.connection["bootstrap.servers"].rpartition(":")[2])
    with CutLink(port) as link:
        world = RetryWorld(Cluster({**cluster.connection, "bootstrap.servers": f"{HOST}:{port}"}))
        world.make_topics(1)
        with running(world) as one, running(world) as other:

            def states() -> set[str]:
                return {one.status().state, other.status().state}

            wait_until(lambda: states() == {"running", "standby"}, deadline_s=60, what="an instance that stands by")
            link.cut()
            wait_until(lambda: states() == {"waiting"}, deadline_s=60, what="that both miss the brokers")
            link.mend()
            wait_until(lambda: states() == {"running", "standby"}, deadline_s=60, what="both as before")


def test_partitions_that_go_and_come_back_with_many_events_that_wait_are_read_on(
    cluster: Cluster, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[Reading] = []

    class Kept(Reading):
        def __init__(self, *given: Any) -> None:
            super().__init__(*given)
            made.append(self)

    def are_paused(count: int) -> bool:
        return [line.is_paused for reading in made[:1] for line in reading.lines()] == [True] * count

    monkeypatch.setattr("edge_service.retrier.route.Reading", Kept)
    world = RetryWorld(cluster, pauses=("1h",))
    world.make_topics()
    world.put(range(1_000))
    with running(world):
        wait_until(lambda: are_paused(2), deadline_s=60, what="that enough is read ahead")
        with running(world):
            wait_until(lambda: are_paused(1), deadline_s=60, what="that another instance has one")
        wait_until(lambda: are_paused(2), deadline_s=60, what="that it is back, and read ahead")
    assert "returns nothing" not in caplog.text


def test_topics_that_are_missing_are_waited_for_by_name(cluster: Cluster) -> None:
    world = RetryWorld(cluster)
    with running(world) as retrier:
        said = retrier.wait_for_state("waiting").last_error or ""
        assert all(topic in said for topic in world.topics())
        world.make_topics()
        world.put(range(10))
        world.wait_for(range(10))
        retrier.wait_for_state("running")
    assert world.came_out() == Counter(range(10))


def test_one_route_without_its_topic_does_not_concern_the_others(cluster: Cluster) -> None:
    world = RetryWorld(cluster, routes=("acme", "beta"))
    world.make_topics()
    cluster.topics.delete(world.retry_out("beta"))
    world.put(range(10), topic=world.retry_in(route="beta"))
    with running(world) as retrier:
        said = retrier.wait_for_state("waiting", "beta").last_error or ""
        assert world.retry_out("beta") in said
        world.put(range(10))
        world.wait_for(range(10))
        assert retrier.status().state == "running"
        wait_until(lambda: retrier.pause(route="beta")["due"] == 10, what="what is due of the other route")
        shown = retrier.pause(route="beta")
        assert (shown["waiting"], shown["forwarded"]) == (10, 0)
        assert shown["oldest_due_s"] > 0
        cluster.topics.create(world.retry_out("beta"), partitions=2)
        world.wait_for(range(10), "beta")
        wait_until(lambda: retrier.pause(route="beta")["waiting"] == 0, what="nothing to wait any more")
        assert retrier.status("beta").counters["forwarded"] == 10
    assert world.came_out("beta") == Counter(range(10))


@pytest.mark.parametrize("pauses", [("1s", "2s", "3s")])
def test_each_event_waits_for_the_pause_of_its_topic(cluster: Cluster, pauses: tuple[str, ...]) -> None:
    world = RetryWorld(cluster, pauses=pauses)
    world.make_topics()
    with running(world) as retrier:
        for number, pause in enumerate(pauses):
            world.put(range(number * 10, number * 10 + 10), topic=world.retry_in(pause))
        world.wait_for(range(30))
        wait_until(lambda: {retrier.pause(pause)["forwarded"] for pause in pauses} == {10}, what="what it shows")
    written = {m.value(): m.timestamp()[1] for pause in pauses for m in cluster.messages(world.retry_in(pause))}
    for message in cluster.messages(world.retry_out()):
        pause = pauses[int(message.value() or b"") // 10]
        assert message.timestamp()[1] - written[message.value()] >= int(pause[0]) * 1000


def test_what_waits_for_a_pause_that_the_configuration_does_not_name_any_more_comes_out_too(cluster: Cluster) -> None:
    world = RetryWorld(cluster, pauses=("1s", "2s"))
    world.make_topics()
    old = world.retry_in("2s")
    world.put(range(10), topic=old)
    world.pauses = ("1s",)
    with running(world) as retrier:
        world.wait_for(range(10))
        world.put(range(10, 20), topic=old)  # by an instance of expel that has the old configuration still
        world.wait_for(range(20))
        wait_until(lambda: retrier.pause("2s")["waiting"] == 0, what="nothing to wait in the old topic")
        cluster.topics.delete(old)
        wait_until(lambda: not retrier.pause("2s") and retrier.status().state == "running", what="that it is forgotten")
        world.put(range(20, 30))
        world.wait_for(range(30))
    assert world.came_out() == Counter(range(30))


def test_a_retry_topic_that_is_recreated_is_read_from_its_start(world: RetryWorld) -> None:
    with running(world):
        world.put(range(200))
        world.wait_for(range(200))
        world.cluster.topics.delete(world.retry_in())
        wait_until(lambda: not world.cluster.topics.exists(world.retry_in()), what="the topic's end")
        world.cluster.topics.create(world.retry_in(), partitions=2)
        world.put(range(200, 700))  # more than had been read of the one before
        world.wait_for(range(700))
    assert world.came_out() == Counter(range(700))


def remove(world: RetryWorld, below: int, partition: int = 0) -> None:
    delete_records(world.cluster.connection, world.retry_in(), {partition: below})


def warnings_of(retrier: Running) -> list[str]:
    return list(retrier.status().details["warnings"])


def test_events_that_were_removed_unread_while_nobody_ran_are_named_once(world: RetryWorld) -> None:
    with running(world):
        world.put(range(0, 10, 2))
        world.wait_for(range(0, 10, 2))
    world.put(range(10, 20))
    remove(world, 8)
    with running(world) as retrier:
        world.wait_for([*range(0, 10, 2), *range(11, 20, 2), 16, 18])
        assert warnings_of(retrier) == [
            f"events may be lost: topic {world.retry_in()}: records 5 to 8 of partition 0 were removed unread"
        ]
        assert (retrier.status().counters["gaps"], retrier.status().state) == (1, "running")
    remove(world, 10)
    with running(world) as retrier:  # nothing comes after what is gone now
        world.put([21])
        world.wait_for([21])
        assert warnings_of(retrier) == []
    assert world.came_out() == Counter([*range(0, 10, 2), *range(11, 20, 2), 16, 18, 21])


def test_a_partition_that_was_removed_to_its_end_is_named_once_also_after_a_restart(world: RetryWorld) -> None:
    with running(world):
        world.put([0])
        world.wait_for([0])
    world.put([2, 4])
    remove(world, 3)
    with running(world) as retrier:
        wait_until(lambda: retrier.status().counters.get("gaps") == 1, what="the gap")
    with running(world) as retrier:
        world.put([1, 6])
        world.wait_for([1, 6])
        assert warnings_of(retrier) == []
    assert world.came_out() == Counter([0, 1, 6])


def test_what_was_removed_before_anybody_ran_is_named(world: RetryWorld) -> None:
    world.put(range(10))
    remove(world, 3, partition=1)
    with running(world) as retrier:
        world.wait_for([*range(0, 10, 2), 7, 9])
        (said,) = warnings_of(retrier)
        assert "records 0 to 3 of partition 1 were removed, and no commit says that they were read" in said
    assert world.came_out() == Counter([*range(0, 10, 2), 7, 9])


def test_what_is_removed_while_it_cannot_be_read_is_named_and_what_was_read_comes_out(cluster: Cluster) -> None:
    world = RetryWorld(cluster, pauses=("20s",))
    world.make_topics(partitions=1)
    with running(world) as retrier:
        world.put(range(150), partitions=1)
        wait_until(lambda: retrier.pause("20s")["waiting"] == 150, what="all to wait")
        world.put(range(150, 30_000), partitions=1)  # most of these are not read ahead
        wait_until(lambda: (retrier.pause("20s")["waiting"] or 0) >= 30_000, what="all to be known")
        remove(world, 29_990)
        wait_until(lambda: retrier.status().counters.get("gaps") == 1, what="the gap")
        world.wait_for([*range(150), *range(29_990, 30_000)])
        (said,) = warnings_of(retrier)
        came = world.came_out()
        last = max(one for one in came if one < 29_990)
        assert f"records {last + 1} to 29990 of partition 0 were removed unread" in said
    assert came == Counter([*range(last + 1), *range(29_990, 30_000)])


def test_a_route_that_tries_again_does_not_show_that_it_runs_as_before_it_failed(
    world: RetryWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    tries, goes_on = threading.Event(), threading.Event()

    def silent(*_: Any) -> Any:
        """As brokers that are away: the first thing that a run asks for."""
        tries.set()
        assert goes_on.wait(60)
        raise Retryable("no broker answers")

    with monkeypatch.context() as patch:
        patch.setattr("edge_service.retrier.route._LOOK_EVERY_S", 0.2)
        with running(world) as retrier:
            retrier.wait_for_state("running")
            patch.setattr("edge_service.retrier.route.old_pauses", silent)
            world.cluster.topics.delete(world.retry_in())
            world.cluster.topics.create(world.retry_in(), partitions=2)
            assert tries.wait(60)
            try:
                shown = retrier.status()
            finally:
                goes_on.set()
    assert (shown.state, bool(shown.last_error)) == ("waiting", True)  # recreated, or not there for a moment


def test_the_topic_that_it_writes_to_may_be_recreated_with_fewer_partitions(world: RetryWorld) -> None:
    with running(world) as retrier:
        world.put(range(10))
        world.wait_for(range(10))
        world.cluster.topics.delete(world.retry_out())
        retrier.wait_for_state("waiting")
        world.put(range(10, 20))
        world.cluster.topics.create(world.retry_out(), partitions=1)
        world.wait_for(range(10, 20))
    assert world.came_out() == Counter(range(10, 20))


def put_large(world: RetryWorld, size: int) -> None:
    """An event that compression makes no smaller."""
    headers = [*event_headers(5), *retry_headers((f"{world.name}.acme", 0, 7), 1, 2), ("enrich.topic_id", b"an-id")]
    with DeliveringProducer(world.cluster.connection) as producer:
        value = random_source("large").randbytes(size)
        producer.produce(world.retry_in(), b"large", value, headers=headers, partition=0)


def require_one_dead_letter(world: RetryWorld) -> None:
    (letter,) = world.cluster.messages(f"{world.name}.acme.dlq")
    headers = dict(headers_of(letter))
    assert letter.key() == f"{world.name}.acme/0/7/{world.name}.expel.acme/an-id".encode()
    assert (headers["enrich.stage"], headers["enrich.key"]) == (b"acme", b"large")
    assert (headers["enrich.topic"], headers["enrich.partition"], headers["enrich.offset"]) == (
        f"{world.name}.acme".encode(),
        b"0",
        b"7",
    )
    assert headers["enrich.origin"] == b"raw/0/5"
    assert b"too large" in (headers["enrich.reason"] or b"")
    assert not {"enrich.tries", "enrich.topic_id"} & headers.keys()


def test_a_record_that_does_not_fit_becomes_a_dead_letter_and_its_neighbours_go_on(cluster: Cluster) -> None:
    world = RetryWorld(cluster)
    cluster.topics.create(world.retry_in(), partitions=2)
    cluster.topics.create(world.retry_out(), partitions=2, config={"max.message.bytes": "10000"})
    world.put(range(5))
    put_large(world, 20_000)
    world.put(range(6, 10))
    with running(world) as retrier:
        world.wait_for([*range(5), *range(6, 10)])
        wait_until(lambda: retrier.pause()["waiting"] == 0, what="nothing to wait any more")
        assert retrier.status().counters["dead_letters"] == 1
    assert world.came_out() == Counter([*range(5), *range(6, 10)])
    require_one_dead_letter(world)


def test_a_record_that_brokers_refuse_is_found_among_its_neighbours(world: RetryWorld) -> None:
    """The topic takes less than when the retrier asked."""
    with running(world) as retrier:
        world.put([0])
        world.wait_for([0])
        world.set_topic(world.retry_out(), "max.message.bytes", "10000")
        world.put(range(1, 5))
        put_large(world, 20_000)
        world.put(range(6, 100))
        world.wait_for([*range(5), *range(6, 100)])
        wait_until(lambda: retrier.pause()["waiting"] == 0, what="nothing to wait any more")
    assert world.came_out() == Counter([*range(5), *range(6, 100)])
    require_one_dead_letter(world)


def test_the_letter_of_an_event_that_a_compacted_topic_does_not_take_says_so(cluster: Cluster) -> None:
    world = RetryWorld(cluster)
    cluster.topics.create(world.retry_in(), partitions=1)
    cluster.topics.create(world.retry_out(), partitions=1, config={"cleanup.policy": "compact"})
    with DeliveringProducer(cluster.connection) as producer:
        headers = [*event_headers(5), *retry_headers((f"{world.name}.acme", 0, 7), 1, 2)]
        producer.produce(world.retry_in(), None, b"an event", headers=headers, partition=0)
    with running(world) as retrier:
        wait_until(lambda: retrier.status().counters["dead_letters"], what="a dead letter")
    (letter,) = world.cluster.messages(f"{world.name}.acme.dlq")
    reason = (dict(headers_of(letter))["enrich.reason"] or b"").decode()
    assert reason.startswith(f"the topic {world.retry_out()} does not take it (")
    assert reason.endswith("): a compacted topic takes no record without a key")


def test_events_whose_time_brokers_refuse_are_no_dead_letters_and_come_out_once_they_take_it(
    world: RetryWorld,
) -> None:
    """As while the clock of the host is an hour ahead of theirs."""
    world.set_topic(world.retry_out(), "message.timestamp.before.max.ms", "0")
    world.cluster.topics.create(f"{world.name}.acme.dlq")
    world.put(range(10))
    with running(world) as retrier:
        wait_until(lambda: "clock" in str(retrier.status().last_error), what="being told of the clock")
        world.set_topic(world.retry_out(), "message.timestamp.before.max.ms", str(2**62))
        world.wait_for(range(10))
        assert retrier.status().counters["dead_letters"] == 0
    assert world.came_out() == Counter(range(10))
