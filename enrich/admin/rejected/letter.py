"""A dead letter, parsed from its record in the DLQ."""

from collections.abc import Mapping
from dataclasses import dataclass

from confluent_kafka import Message

from enrich.kafka.identity import REPLAYS
from enrich.kafka.records import headers_of, key_of, value_of
from enrich.kafka.writing.dead_letters import HeaderList
from stores.versions import whole_number

# The headers that `dead_letter` adds. `enrich.version` and the count of replays belong to the original record.
_ADDED = frozenset(
    f"enrich.{name}"
    for name in (
        "reason",
        "stage",
        "lookup",
        "route",
        "topic",
        "partition",
        "offset",
        "key",
        "length",
        "sha256",
        "masked",
    )
) | {"enrich.key_length", "enrich.key_sha256", "enrich.headers_left_out"}


@dataclass(frozen=True, slots=True)
class Letter:
    """One record that could not be processed, and where it came from."""

    dlq: str
    name: str
    """Its key in the DLQ: topic, partition and offset of its record, and who sent the letter. A letter of ingest, whose
    event never had a place, is named by its request."""
    topic: str
    """Of its record; for a letter of ingest, where its event was to go."""
    partition: int | None
    offset: int | None
    reason: str
    stage: str
    lookup: str | None
    key: bytes | None
    value: bytes
    length: int
    """Length of the original value. The letter has only as much of it as fits into a record of the DLQ."""
    headers: HeaderList
    """The original headers."""
    timestamp: int
    replays: int
    lacks_key_or_headers: bool = False
    """The key or the headers did not fit either."""
    is_masked: bool = False
    """Its key and value are not those of its record."""
    dlq_partition: int = 0
    """Where it stands. A DLQ may have got more partitions since: only there a tombstone of its key removes it."""

    @property
    def place(self) -> tuple[str, int, int] | None:
        """Topic, partition and offset of the original record."""
        return None if self.partition is None or self.offset is None else (self.topic, self.partition, self.offset)

    @property
    def origin(self) -> str:
        """`topic/partition/offset` of the original record; without one the name."""
        return self.name if self.place is None else "/".join(map(str, self.place))

    @property
    def sender(self) -> str:
        """Who sent the letter, as in its name."""
        return self.name if self.place is None else self.name.removeprefix(self.origin).removeprefix("/")

    @property
    def topic_id(self) -> str:
        """Of the topic in which its record stood, if its sender has told it: offsets of another one do not compare."""
        return self.sender.partition("/")[2]

    @property
    def is_cut(self) -> bool:
        return len(self.value) < self.length or self.lacks_key_or_headers


def letter_of(dlq: str, message: Message) -> Letter | None:
    """None for a record that is not a dead letter of ours."""
    headers = headers_of(message)
    fields = {key: content for key, content in headers if content is not None}
    try:
        return Letter(
            dlq,
            (key_of(message) or b"").decode(),
            fields["enrich.topic"].decode(),
            *_place(fields),
            fields["enrich.reason"].decode(errors="replace"),
            fields["enrich.stage"].decode(errors="replace"),
            None if "enrich.lookup" not in fields else fields["enrich.lookup"].decode(errors="replace"),
            fields.get("enrich.key"),
            value_of(message) or b"",
            int(fields["enrich.length"]),
            [(key, content) for key, content in headers if key not in _ADDED],
            message.timestamp()[1],
            # The original record may have brought it: what is no number must not hide the letter.
            whole_number(fields.get(REPLAYS), most_digits=9) or 0,
            not {"enrich.key_length", "enrich.headers_left_out"}.isdisjoint(fields),
            "enrich.masked" in fields,
            message.partition() or 0,
        )
    except (KeyError, ValueError):
        return None


def _place(fields: Mapping[str, bytes]) -> tuple[int | None, int | None]:
    """Partition and offset; None if it has neither."""
    if "enrich.partition" not in fields and "enrich.offset" not in fields:
        return None, None
    return int(fields["enrich.partition"]), int(fields["enrich.offset"])
