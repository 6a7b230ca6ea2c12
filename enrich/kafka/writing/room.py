"""How large records may be in topics, and producers that write there what the topics take, however large."""

from collections.abc import Collection, Mapping, Sequence

from enrich.base.errors import ConfigError
from enrich.kafka.clients.making import Connection
from enrich.kafka.topics import Topics

DEFAULT_ROOM = 1_000_000
"""Largest record of a topic with unknown settings, in bytes."""
LARGEST_MESSAGE = 1_000_000_000
"""What a producer can be told; a topic may take more."""
_LEAST_MESSAGE = 1_000
_BATCH_OVERHEAD = 200
_LARGEST_BATCH = 1_000_000
"""The client's default."""


def room_in(names: Sequence[str], topics: Topics, producer: Connection) -> int:
    """The largest record that all of these topics take, in bytes; a batch must fit too, or brokers refuse it whole."""
    rooms = [_most(producer)]
    for name in names:
        try:
            rooms.append(room_by(topics.settings(name), producer))
        except ConfigError:  # this user may not read the settings: take the default of most brokers
            rooms.append(DEFAULT_ROOM)
    return min(rooms)


def room_by(settings: Mapping[str, str], producer: Connection) -> int:
    """The same of one topic, by its settings."""
    return min(_most(producer), int(settings.get("max.message.bytes", DEFAULT_ROOM)) - _BATCH_OVERHEAD)


def _most(producer: Connection) -> int:
    ours = producer.get("message.max.bytes")
    return LARGEST_MESSAGE if ours is None else int(str(ours))


def sized(producer: Connection, rooms: Collection[int]) -> Connection:
    """The settings of a producer that writes to topics with so much room what each of them takes, however large. And no
    batch is too large for one of them: brokers refuse it whole."""
    batch = min([int(str(producer.get("batch.size", _LARGEST_BATCH))), *rooms])
    return {**producer, "message.max.bytes": max(*rooms, _LEAST_MESSAGE), "batch.size": max(batch, 1)}


def sized_for(names: Sequence[str], topics: Topics, producer: Connection) -> Connection:
    """The settings of a producer that writes to these topics."""
    return sized(producer, [room_in([name], topics, producer) for name in names])
