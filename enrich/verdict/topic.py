"""The topic of verdicts, and how it is read."""

import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import TypeVar

from enrich.base.errors import BadRecord, ConfigError
from enrich.kafka import Connection, Topics, read_topic
from enrich.verdict.minute import MinuteVerdict, decoded
from enrich.verdict.summary import Summary, read_summary

CHECKPOINT = b"checkpoint"
"""The key of where another observer goes on."""
CLOCK = b"clock"
"""The key of a record without a meaning, by which an observer learns what time the brokers have."""
ALARM, ACTION = b"alarm/", b"action/"
"""How the keys of alarms and of announced actions begin. All others are of verdicts."""


def is_verdict(key: bytes | None) -> bool:
    return key is not None and key not in (CHECKPOINT, CLOCK) and not key.startswith((ALARM, ACTION))


def settings_of(keep: timedelta) -> dict[str, str]:
    """The newest verdict of each minute stays, for so long. A segment an hour: readers that want the last minutes find
    them by time."""
    return {
        "cleanup.policy": "compact,delete",
        "retention.ms": str(keep // timedelta(milliseconds=1)),
        "segment.ms": str(timedelta(hours=1) // timedelta(milliseconds=1)),
        "min.cleanable.dirty.ratio": "0.2",
        "message.timestamp.type": "LogAppendTime",
    }


_Kind = TypeVar("_Kind", bound=MinuteVerdict | Summary)


def verdicts_since(connection: Connection, topics: Topics, topic: str, since_minute: int) -> Iterator[MinuteVerdict]:
    """The newest of each way and minute, of the minutes from this one on, in order. Raises ConfigError without it."""
    return _newest(connection, topics, topic, since_minute, decoded)


def summaries_since(connection: Connection, topics: Topics, topic: str, since_minute: int) -> Iterator[Summary]:
    """The same in short: thirty days of whole ones take gigabytes, and minutes to read."""
    return _newest(connection, topics, topic, since_minute, read_summary)


def _newest(
    connection: Connection, topics: Topics, topic: str, since_minute: int, read: Callable[[bytes], _Kind]
) -> Iterator[_Kind]:
    if not topics.is_there(topic):
        raise ConfigError(
            f"there is no topic {topic}: no observer has written a verdict",
            next_step="run one: enrich observe run -c FILE",
        )
    # A verdict is written after its minute.
    starts = topics.offsets_at(topic, min(since_minute * 60_000, time.time_ns() // 10**6))
    newest: dict[tuple[str, int], _Kind] = {}
    for batch in read_topic(connection, topic, starts, topics.end_offsets(topic)):
        for message in batch:
            value = message.value()
            if value is None or not is_verdict(message.key()):
                continue
            try:
                verdict = read(value)
            except BadRecord:
                continue
            if verdict.minute >= since_minute:
                newest[verdict.route, verdict.minute] = verdict
    yield from (newest[key] for key in sorted(newest, key=lambda key: (key[1], key[0])))
