"""`enrich dlq` for the edges: letters go back through the retry topic of a route, or by force into ingest's topic."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from enrich.kafka import DeliveringProducer
from enrich.kafka.identity import identity_of
from enrich.kafka.records import headers_of
from enrich.kafka.writing.dead_letters import DeadLetter, Origin, dead_letter, sender_of
from tests.support.commands import Done, enrich, lines
from tests.support.kafka.topics import Cluster
from tests.support.seed import random_source

EVENT = [("trace", b"\x00\xff"), ("trace", None)]


class Edges:
    """A route `acme` and an ingest `plays`, with DLQs of their own."""

    def __init__(self, cluster: Cluster, new_topic: Callable[..., str], write: Callable[[str], Path]) -> None:
        self.cluster = cluster
        self.topic, self.raw = new_topic(partitions=4), new_topic(partitions=2)
        self.dead = new_topic(cleanup_policy="compact", max_message_bytes="4000000")
        self.bad = new_topic(cleanup_policy="compact")
        self.name = f"e{time.time_ns()}"
        to = "{http: {url: 'https://example.org/events'}}"
        self.config = write(
            f"ingest:\n  plays: {{path: /plays, topic: {self.raw}, format: json, invalid: dlq, dlq: {self.bad}}}\n"
            f"expel:\n  {self.name}: {{topic: {self.topic}, to: {to}, retries: [30s], dlq: {self.dead}}}\n"
            f"  once: {{topic: {self.topic}, to: {to}, retries: [], dlq: {self.dead}}}\n"
        )
        self.retry_out = f"test.{self.name}.retry_out"

    def bury(
        self,
        offset: int,
        *headers: tuple[str, bytes | None],
        route: str = "",
        topic_id: str = "",
        value: bytes = b"",
        pipeline: str = "test",
    ) -> None:
        """As expel does it."""
        value = value or b'{"n": %d}' % offset
        origin = Origin(self.topic, 3, offset, b"k%d" % offset, value, [*EVENT, *headers])
        stage = route or self.name
        sender = sender_of(f"{pipeline}.expel.{stage}", topic_id)
        letter = dead_letter(origin, "HTTP 422: no", stage=stage, sender=sender, largest_value=len(value))
        self._write(self.dead, letter)

    def refuse(self, number: int, pipeline: str = "test") -> None:
        """As ingest does it."""
        headers = [("enrich.reason", b"user_id: missing"), ("enrich.stage", b"plays"), ("enrich.length", b"2")]
        headers += [("enrich.topic", self.raw.encode()), ("enrich.sha256", b"")]
        self._write(self.bad, DeadLetter(f"{pipeline}.ingest.plays/abc/{number}".encode(), b"{}", headers))

    def _write(self, dlq: str, letter: DeadLetter) -> None:
        with DeliveringProducer({**self.cluster.connection, "message.max.bytes": 4_000_000}) as producer:
            producer.produce(dlq, letter.key, letter.value, headers=letter.headers)

    def run(self, *words: str) -> Done:
        return enrich("dlq", *words, "-c", self.config, "--json")

    def listed(self) -> dict[str, dict[str, Any]]:
        return {line["letter"]: line for line in lines(self.run("list"))}


@pytest.fixture
def edges(cluster: Cluster, new_topic: Callable[..., str], write_config: Callable[[str], Path]) -> Edges:
    return Edges(cluster, new_topic, write_config)


def test_a_letter_of_a_route_goes_back_once_through_its_retry_topic_as_if_it_were_new(edges: Edges) -> None:
    cluster = edges.cluster
    cluster.topics.create(edges.retry_out, partitions=2)
    edges.bury(7)
    edges.bury(8, ("enrich.origin", b"raw/0/1"), ("enrich.event_time", b"5"))
    before_ms = time.time_ns() // 1_000_000
    done = edges.run("replay", "--all")
    assert (done.returncode, sum(line["replayed"] for line in lines(done))) == (0, 2), done.stderr
    came = {message.value(): message for message in cluster.messages(edges.retry_out)}
    assert set(came) == {b'{"n": 7}', b'{"n": 8}'}
    assert [message.key() for message in came.values()] == [b"k7", b"k8"]
    assert {message.partition() for message in came.values()} == {1}  # 3, of the two that there are
    assert cluster.messages(edges.topic) == []  # others read that too
    for offset, own in ((7, {"enrich.origin": f"{edges.topic}/3/7".encode()}), (8, {"enrich.origin": b"raw/0/1"})):
        headers = headers_of(came[b'{"n": %d}' % offset])
        assert [pair for pair in headers if pair[0] == "trace"] == EVENT
        known = dict(headers)
        assert int(known.pop("enrich.timestamp") or b"0") >= before_ms
        known.pop("trace"), known.pop("enrich.event_time", None)
        place = {"enrich.topic": edges.topic.encode(), "enrich.partition": b"3", "enrich.offset": b"%d" % offset}
        assert known == {**place, **own, "enrich.tries": b"0", "enrich.replays": b"1"}
    assert edges.listed() == {}
    edges.run("replay", "--all")
    assert len(cluster.messages(edges.retry_out)) == 2


def test_letters_go_back_as_large_as_their_topic_takes_them_and_larger_ones_keep_no_others_back(edges: Edges) -> None:
    edges.cluster.topics.create(edges.retry_out, partitions=4, config={"max.message.bytes": "2500000"})
    chance = random_source("large letters")
    sizes = {1: 10, 2: 2_000_000, 3: 3_000_000, 4: 10}
    values = {offset: b"%d" % offset + chance.randbytes(size) for offset, size in sizes.items()}
    for offset, value in values.items():
        edges.bury(offset, value=value)
    done = edges.run("replay", "--all")
    skipped = {reason: number for line in lines(done) for reason, number in line.get("skipped", {}).items()}
    assert skipped == {"it is larger than a record of the topic to which it goes may be": 1}, done.stderr
    assert {message.value() for message in edges.cluster.messages(edges.retry_out)} == {
        values[one] for one in (1, 2, 4)
    }
    assert len(edges.listed()) == 1


def test_a_letter_that_was_given_up_again_counts_how_often_it_was_replayed(edges: Edges) -> None:
    edges.cluster.topics.create(edges.retry_out, partitions=4)
    edges.bury(7, ("enrich.replays", b"1"))
    edges.bury(8, ("enrich.replays", b"often"), ("enrich.origin", b"somewhere"))  # its sender has written that
    assert sorted(letter["replays"] for letter in edges.listed().values()) == [0, 1]
    edges.run("replay", "--all")
    seventh, eighth = sorted(edges.cluster.messages(edges.retry_out), key=lambda each: each.key() or b"")
    assert [content for name, content in headers_of(seventh) if name == "enrich.replays"] == [b"2"]
    assert [content for name, content in headers_of(eighth) if name == "enrich.replays"] == [b"1"]
    assert identity_of(headers_of(eighth))[0] == (f"{edges.topic}/3".encode(), 8)


def test_a_letter_takes_along_which_topic_its_event_stood_in(edges: Edges) -> None:
    """Given up again it has the same name; in a topic that was made again other events have the same places."""
    edges.cluster.topics.create(edges.retry_out, partitions=4)
    edges.bury(7, topic_id="an-id")
    edges.bury(8)
    edges.run("replay", "--all")
    came = {message.value(): dict(headers_of(message)) for message in edges.cluster.messages(edges.retry_out)}
    assert came[b'{"n": 7}']["enrich.topic_id"] == b"an-id"
    assert "enrich.topic_id" not in came[b'{"n": 8}']


def test_letters_of_routes_through_which_none_goes_back_stay_and_say_why(edges: Edges) -> None:
    edges.bury(1)
    edges.bury(2, route="once")
    edges.bury(3, route="gone")
    done = edges.run("replay", "--all")
    assert done.returncode == 1
    skipped = {reason: number for line in lines(done) for reason, number in line["skipped"].items()}
    assert skipped == {
        "its topic does not exist": 1,
        "its route has no retry topics, through which it would go back": 1,
        "its route is not in the configuration": 1,
    }
    assert len(edges.listed()) == 3


def test_letters_of_another_pipeline_s_route_and_ingest_in_the_same_dlq_stay(edges: Edges) -> None:
    """In the topic of its events everybody would read such an event again, and nobody has checked the other."""
    edges.cluster.topics.create(edges.retry_out, partitions=4)
    edges.bury(1, pipeline="other", topic_id="an-id")
    edges.refuse(2, pipeline="other")
    done = edges.run("replay", "--all")
    assert {reason: number for line in lines(done) for reason, number in line["skipped"].items()} == {
        "its route is not in the configuration": 1,
        "its ingest is not in the configuration": 1,
    }
    assert done.returncode == 1
    for topic in (edges.topic, edges.raw, edges.retry_out):
        assert edges.cluster.messages(topic) == []
    assert len(edges.listed()) == 2
    edges.bury(3)
    assert edges.run("purge", "--stage", edges.name, "--yes").returncode == 0
    assert {letter["offset"] for letter in edges.listed().values()} == {1, None}, "those of the other pipeline"


def test_a_bad_event_of_ingest_is_shown_stays_unless_forced_and_then_is_written_as_it_was_sent(edges: Edges) -> None:
    edges.refuse(0)
    edges.refuse(1)
    first, second = "test.ingest.plays/abc/0", "test.ingest.plays/abc/1"
    found = edges.listed()
    assert set(found) == {first, second}
    one = found[first]
    assert (one["stage"], one["reason"], one["partition"], one["offset"]) == ("plays", "user_id: missing", None, None)
    (shown,) = lines(edges.run("show", first))
    assert shown["value"] == "{}"
    stays = edges.run("replay", first)
    assert stays.returncode == 1
    assert {reason for line in lines(stays) for reason in line["skipped"]} == {
        "a replay cannot check the event again: with --force it is written as it was sent"
    }
    forced = edges.run("replay", first, "--force")
    assert forced.returncode == 0, forced.stderr
    (message,) = edges.cluster.messages(edges.raw)
    assert (message.key(), message.value(), headers_of(message)) == (None, b"{}", [("enrich.replays", b"1")])
    assert set(edges.listed()) == {second}
    assert edges.run("purge", second, "--yes").returncode == 0
    assert edges.listed() == {}
