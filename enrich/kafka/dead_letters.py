"""Dead letters: records that cannot be processed, with the reason, where they came from, and their original bytes."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

HeaderList = Sequence[tuple[str, bytes | None]]

# Below the brokers' default of 1 MiB a record, with room for the headers.
LARGEST_VALUE = 900_000


@dataclass(frozen=True, slots=True)
class Origin:
    """A record and where it stands. Of a record that has come through other topics: where it stood first."""

    topic: str
    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    headers: HeaderList = ()

    def __str__(self) -> str:
        return f"topic {self.topic}, partition {self.partition}, offset {self.offset}"


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """What is produced to a DLQ."""

    key: bytes
    value: bytes
    headers: HeaderList


def dead_letter(
    origin: Origin, reason: str, *, stage: str, lookup: str | None = None, largest_value: int = LARGEST_VALUE
) -> DeadLetter:
    """The reason must hold no payload. A value too large for the DLQ is cut; length and digest are the whole's."""
    value = origin.value if origin.value is not None else b""
    told = {
        "enrich.reason": reason.encode(),
        "enrich.stage": stage.encode(),
        "enrich.lookup": None if lookup is None else lookup.encode(),
        "enrich.topic": origin.topic.encode(),
        "enrich.partition": str(origin.partition).encode(),
        "enrich.offset": str(origin.offset).encode(),
        "enrich.key": origin.key,
        "enrich.length": str(len(value)).encode(),
        "enrich.sha256": hashlib.sha256(value).hexdigest().encode(),
    }
    headers = [(name, content) for name, content in origin.headers if name not in told]
    headers += [(name, content) for name, content in told.items() if content is not None]
    key = f"{origin.topic}/{origin.partition}/{origin.offset}".encode()
    return DeadLetter(key, value[:largest_value], headers)
