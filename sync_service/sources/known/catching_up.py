"""Updates the known rows to what the topic holds: after a start, a failover, or writes of another program."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from confluent_kafka import Message

from enrich.base.errors import ConfigError, CorruptState, Retryable
from enrich.kafka import Connection, Topics, read_topic
from enrich.kafka.records import key_of, value_of
from enrich.kafka.topic_settings import largest_row
from enrich.kafka.writing.room import room_by
from stores.freshness import CLOCK_STEP_MS
from sync_service.sources.known.rows import DIGEST, KnownRows, digests_of

_SETTLED_S, _SETTLING_S = 30.0, 0.01
NOWHERE: Mapping[int, int] = {}


@dataclass(frozen=True, slots=True)
class TopicFacts:
    """Facts about a source's topic."""

    name: str
    topic_id: str
    delete_retention_ms: int
    largest: int
    """Most bytes of key and value together."""
    room: int
    """The largest record, in bytes."""


def facts_of(topics: Topics, name: str, connection: Connection) -> TopicFacts:
    """Raises ConfigError if the topic is missing or does not keep the last record of every key."""
    topic_id = topics.topic_id(name)
    settings = topics.settings(name)
    if settings.get("cleanup.policy") != "compact":
        raise ConfigError(
            f"the topic's cleanup.policy is {settings.get('cleanup.policy')}: rows would disappear from it by age",
            where=f"topic {name}",
            next_step="set cleanup.policy=compact",
        )
    largest, room = largest_row(connection, settings), room_by(settings, connection)
    return TopicFacts(name, topic_id, int(settings.get("delete.retention.ms", 0)), largest, room)


def catch_up(
    known: KnownRows,
    topics: Topics,
    facts: TopicFacts,
    connection: Connection,
    now_ms: int,
    checkpoint: Callable[[], None] = lambda: None,
    at_least: Mapping[int, int] = NOWHERE,
) -> int:
    """Returns how many records it read. Raises CorruptState if the known rows cannot be brought up to date any more.

    `at_least`: offsets that the topic must reach: records below them were written, even if they cannot be read yet.
    """
    if facts.topic_id != known.topic_id:
        raise CorruptState("the topic was deleted and recreated", where=f"topic {facts.name}")
    # Tombstones may be removed after this time: a key that was deleted meanwhile would stay known forever. A moment in
    # the future is from before the clock was set back: nobody knows how long ago it was.
    away_ms = now_ms - (known.caught_up_ms or now_ms)
    if not -CLOCK_STEP_MS <= away_ms <= facts.delete_retention_ms // 2:
        raise CorruptState(
            "the topic was not followed for too long, or the clock was set back", where=f"topic {facts.name}"
        )
    starts = topics.start_offsets(facts.name)
    ends = _settled_ends(topics, facts.name, {**known.positions, **at_least}, checkpoint)
    positions = {partition: known.positions.get(partition, starts[partition]) for partition in ends}
    for partition, position in positions.items():
        if position < starts[partition]:
            raise _gone(facts.name, partition, position)
        if ends[partition] == position + 1 and partition in known.markers:
            positions[partition] = ends[partition]
    read = 0
    if positions != ends:
        for messages in read_topic(connection, facts.name, dict(positions), ends):
            checkpoint()
            read += len(messages)
            _take_in(known, messages, positions)
    known.markers.clear()
    known.note(positions=ends, caught_up_ms=now_ms)
    return read


def _settled_ends(
    topics: Topics, topic: str, at_least: Mapping[int, int], checkpoint: Callable[[], None]
) -> dict[int, int]:
    """The end offsets, including all that was committed. A commit returns before readers see it: wait until they do.

    Raises CorruptState if the topic ends before what was known of it.
    """
    end = time.monotonic() + _SETTLED_S
    while True:
        ends = topics.end_offsets(topic)
        behind = {p: offset for p, offset in at_least.items() if ends.get(p, 0) < offset}
        if not behind:
            return ends
        written = topics.written_offsets(topic)
        for partition, offset in behind.items():
            if written.get(partition, 0) < offset:
                raise _gone(topic, partition, offset)
        if time.monotonic() > end:
            raise Retryable(
                f"records that were committed cannot be read yet, after {_SETTLED_S:g} s",
                where=f"topic {topic}",
                next_step="check that all replicas of its partitions and of __transaction_state are in sync",
            )
        checkpoint()
        time.sleep(_SETTLING_S)


def _gone(topic: str, partition: int, offset: int) -> CorruptState:
    return CorruptState(
        "the topic does not have the next records any more",
        where=f"topic {topic}, partition {partition}, offset {offset}",
    )


def _take_in(known: KnownRows, messages: list[Message], positions: dict[int, int]) -> None:
    last: dict[bytes, bytes | None] = {}
    for message in messages:
        key, partition, offset = key_of(message), message.partition(), message.offset()
        if key is not None:
            last[key] = value_of(message)
        if partition is not None and offset is not None:
            positions[partition] = offset + 1
    keys = list(last)
    values = list(last.values())
    deleted = np.array([value is None for value in values], np.bool_)
    digests = digests_of([value or b"" for value in values]) if keys else np.empty(0, f"V{DIGEST}")
    known.apply(keys, known.lookup(keys).slots, digests, deleted, positions)
