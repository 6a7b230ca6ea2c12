"""Finds the event whose time Spark cannot read. Its Kafka source makes microseconds of the milliseconds of each record,
before any step of a stage: one that are too many for it fails each batch with the record, and Spark names none.
"""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence

from confluent_kafka import Message

from enrich.base.errors import BadRecord
from enrich.stage.progress.source_topics import Position

_SPARKS_WORDS = "long overflow"
"""Of the JVM's ArithmeticException. An expression of the stage may fail by the same."""
_MOST_MS = (2**63 - 1) // 1_000
_PATIENCE_S = 60.0
"""The stage has failed already: it may not read on for hours."""

Read = Callable[[str, Mapping[int, int]], Iterable[Sequence[Message]]]
"""The records of a topic from these offsets on, to its end."""


def may_be_of_time(text: str) -> bool:
    """Whether Spark's message may mean this."""
    return _SPARKS_WORDS in text


def absurd_time(starts: Position, read: Read) -> BadRecord | None:
    """What to say of the first such record of each topic behind these offsets; None if there is none. Raises what
    `read` does."""
    end = time.monotonic() + _PATIENCE_S
    for topic, offsets in sorted(starts.items()):
        for batch in read(topic, offsets):
            for message in batch:
                _, time_ms = message.timestamp()
                if abs(time_ms) > _MOST_MS:
                    return _named(topic, message, time_ms)
            if time.monotonic() > end:
                return None
    return None


def _named(topic: str, message: Message, time_ms: int) -> BadRecord:
    return BadRecord(
        f"Spark cannot read the time of an event: {time_ms} ms since 1970 are more than its timestamps hold",
        where=f"topic {topic}, partition {message.partition()}, offset {message.offset()}",
        next_step="profile: realtime takes it for the latest time that there is: go on with that, with another "
        "checkpoint and --from group; the topic's message.timestamp.after.max.ms refuses such events",
    )
