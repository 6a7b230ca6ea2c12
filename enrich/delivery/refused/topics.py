"""The topics that a route sends records on to, its retry topics and its DLQ, and how large records may be there."""

from collections.abc import Collection, Sequence
from contextlib import suppress
from datetime import timedelta

from enrich.base.errors import ConfigError
from enrich.kafka import COMPACTED, Connection, Topics

# Largest record of a topic with unknown settings, in bytes.
_DEFAULT_ROOM = 1_000_000
_BATCH_OVERHEAD = 200
_HEADERS = 64 * 2**10
_LEAST_MESSAGE, LARGEST_MESSAGE = 1_000, 1_000_000_000
"""What a producer can be told; a topic may take more."""
_LARGEST_BATCH = 1_000_000
"""The client's default."""


def room_in(names: Sequence[str], topics: Topics, producer: Connection) -> int:
    """The largest record that all of these topics take, in bytes; a batch must fit too, or brokers refuse it whole."""
    ours = producer.get("message.max.bytes")
    rooms = [LARGEST_MESSAGE if ours is None else int(str(ours))]
    for name in names:
        try:
            rooms.append(int(topics.settings(name).get("max.message.bytes", _DEFAULT_ROOM)) - _BATCH_OVERHEAD)
        except ConfigError:  # this user may not read the settings: take the default of most brokers
            rooms.append(_DEFAULT_ROOM)
    return min(rooms)


def sized(producer: Connection, rooms: Collection[int]) -> Connection:
    """The settings of a producer that writes to topics with so much room what each of them takes, however large. And no
    batch is too large for one of them: brokers refuse it whole."""
    batch = min([int(str(producer.get("batch.size", _LARGEST_BATCH))), *rooms])
    return {**producer, "message.max.bytes": max(*rooms, _LEAST_MESSAGE), "batch.size": max(batch, 1)}


def grow_topics(topics: Topics, names: Sequence[str], partitions: int) -> None:
    """Adds partitions to those that have fewer. Raises ConfigError without the rights for it."""
    for name in names:
        if len(topics.partitions(name)) >= partitions:
            continue
        try:
            topics.grow(name, partitions)
        except ConfigError:
            if len(topics.partitions(name)) < partitions:  # else another instance was faster
                raise


def make_topics(
    topics: Topics,
    source: str,
    dlq: str,
    retry_topics: Sequence[str],
    partitions: int,
    kept: timedelta | None = None,
) -> None:
    """Creates the DLQ and the retry topics that are missing. `kept`: for how long retry topics keep records; None: as
    long as the brokers say. Raises ConfigError without the rights for it."""
    missing = [name for name in (dlq, *retry_topics) if not topics.exists(name)]
    if not missing:
        return
    room: dict[str, str] = {}
    retention = {} if kept is None else {"retention.ms": str(kept // timedelta(milliseconds=1))}
    with suppress(ConfigError):  # without the right to read the settings: the brokers' default
        largest = int(topics.settings(source).get("max.message.bytes", 0))
        if largest >= _DEFAULT_ROOM:
            # They must take every record of the topic, plus the headers with its position.
            room = {"max.message.bytes": str(largest + _HEADERS)}
    for name in missing:
        # Compacted, so that a dead letter stays until it is replayed or purged.
        policy = COMPACTED if name == dlq else retention
        topics.ensure(name, partitions=partitions, config={**policy, **room})
