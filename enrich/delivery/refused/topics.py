"""The topics that a route sends records on to: its retry topics and its DLQ."""

from collections.abc import Sequence
from contextlib import suppress
from datetime import timedelta

from enrich.base.errors import ConfigError
from enrich.kafka import COMPACTED, Topics
from enrich.kafka.writing.room import DEFAULT_ROOM

_HEADERS = 64 * 2**10


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
        if largest >= DEFAULT_ROOM:
            # They must take every record of the topic, plus the headers with its position.
            room = {"max.message.bytes": str(largest + _HEADERS)}
    for name in missing:
        # Compacted, so that a dead letter stays until it is replayed or purged.
        policy = COMPACTED if name == dlq else retention
        topics.ensure(name, partitions=partitions, config={**policy, **room})
