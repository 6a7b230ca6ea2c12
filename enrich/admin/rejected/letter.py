"""A dead letter as it stands in its DLQ, taken apart again."""

from dataclasses import dataclass

from confluent_kafka import Message

from enrich.kafka.records import headers_of
from enrich.kafka.writing.dead_letters import HeaderList

REPLAYS = "enrich.replays"
"""The header that counts how often a record was replayed."""

# What `dead_letter` adds. `enrich.version` and the count of replays belong to the record itself.
_ADDED = frozenset(
    f"enrich.{name}"
    for name in ("reason", "stage", "lookup", "topic", "partition", "offset", "key", "length", "sha256")
) | {"enrich.key_length", "enrich.key_sha256", "enrich.headers_left_out"}


@dataclass(frozen=True, slots=True)
class Letter:
    """One record that could not be processed, and where it came from."""

    dlq: str
    name: str
    """Its key in the DLQ: its place, and for a stage's letter which stage and topic id it is of."""
    topic: str
    partition: int
    offset: int
    reason: str
    stage: str
    lookup: str | None
    key: bytes | None
    value: bytes
    length: int
    """Of the original value, which the letter holds only as far as the DLQ takes."""
    headers: HeaderList
    """The original ones."""
    timestamp: int
    replays: int
    lacks_key_or_headers: bool = False
    """The DLQ did not take the key or the headers whole either."""

    @property
    def place(self) -> str:
        """`topic/partition/offset` of where it came from."""
        return f"{self.topic}/{self.partition}/{self.offset}"

    @property
    def is_cut(self) -> bool:
        return len(self.value) < self.length or self.lacks_key_or_headers


def letter_of(dlq: str, message: Message) -> Letter | None:
    """None for what is no dead letter: somebody else's record, which is left alone."""
    headers, name = headers_of(message), message.key()
    told = {key: content for key, content in headers if content is not None}
    value = message.value()
    try:
        return Letter(
            dlq,
            (name if isinstance(name, bytes) else str(name).encode()).decode(),
            told["enrich.topic"].decode(),
            int(told["enrich.partition"]),
            int(told["enrich.offset"]),
            told["enrich.reason"].decode(errors="replace"),
            told["enrich.stage"].decode(errors="replace"),
            None if "enrich.lookup" not in told else told["enrich.lookup"].decode(errors="replace"),
            told.get("enrich.key"),
            value.encode() if isinstance(value, str) else value or b"",
            int(told["enrich.length"]),
            [(key, content) for key, content in headers if key not in _ADDED],
            message.timestamp()[1],
            int(told.get(REPLAYS, b"0")),
            not {"enrich.key_length", "enrich.headers_left_out"}.isdisjoint(told),
        )
    except (KeyError, ValueError):
        return None
