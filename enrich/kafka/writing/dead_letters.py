"""Dead letters: records that cannot be processed, with the reason, where they came from, and their original bytes."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

HeaderList = Sequence[tuple[str, bytes | None]]

# Below the brokers' default of 1 MiB per record, with room for the headers.
LARGEST_VALUE = 900_000


@dataclass(frozen=True, slots=True)
class Origin:
    """A record and its position. If it has come through other topics: its first position."""

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


# Upper bounds for what a producer adds to the size of a record, and for each header.
_OVERHEAD, _HEADER_OVERHEAD = 120, 10
_LONGEST_REASON = 1_000


def record_size(key: bytes | None, value: bytes | None, headers: HeaderList) -> int:
    """The size of a record in a topic, in bytes; rather too large than too small."""
    size = _OVERHEAD + len(key or b"") + len(value or b"")
    return size + sum(_HEADER_OVERHEAD + len(name.encode()) + len(content or b"") for name, content in headers)


def fitted(letter: DeadLetter, room: int) -> DeadLetter | None:
    """The dead letter, cut to at most `room` bytes: first its value; then the original headers, which are replaced by
    their number; then the key, replaced by its start, length and digest. None if not even position and reason fit."""
    if record_size(letter.key, letter.value, letter.headers) <= room:
        return letter
    reason = min(_LONGEST_REASON, room // 8)
    headers = [
        (name, _cut_text(content, reason) if name == "enrich.reason" else content) for name, content in letter.headers
    ]
    if record_size(letter.key, None, headers) > room // 2:
        own = [(name, content) for name, content in headers if name.startswith("enrich.")]
        if len(own) < len(headers):
            own.append(("enrich.headers_left_out", str(len(headers) - len(own)).encode()))
        headers = own
    if record_size(letter.key, None, headers) > room // 2:
        key = dict(headers).get("enrich.key") or b""
        shortened = {
            "enrich.key": key[: room // 4],
            "enrich.key_length": str(len(key)).encode(),
            "enrich.key_sha256": hashlib.sha256(key).hexdigest().encode(),
        }
        headers = [(name, content) for name, content in headers if name != "enrich.key"] + list(shortened.items())
    rest = room - record_size(letter.key, None, headers)
    return DeadLetter(letter.key, letter.value[:rest], headers) if rest >= 0 else None


def _cut_text(text: bytes | None, length: int) -> bytes | None:
    return None if text is None else text[:length].decode(errors="ignore").encode()


def sender_of(route: str, topic_id: str) -> str:
    """The sender of a route's letters. `topic_id`: empty if it is not known."""
    return "/".join(part for part in (route, topic_id) if part)


def dead_letter(
    origin: Origin,
    reason: str,
    *,
    stage: str,
    sender: str,
    lookup: str | None = None,
    largest_value: int = LARGEST_VALUE,
) -> DeadLetter:
    """The reason must not contain payload. A value too large for the DLQ is cut; length and digest are of the whole.

    `sender`: who sends it, and from which topic id. A compacted DLQ keeps only the newest letter of a key, so different
    senders, and a topic that was deleted and recreated, need different keys.
    """
    value = origin.value if origin.value is not None else b""
    own = {
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
    headers = [(name, content) for name, content in origin.headers if name not in own]
    headers += [(name, content) for name, content in own.items() if content is not None]
    key = f"{origin.topic}/{origin.partition}/{origin.offset}/{sender}".encode()
    return DeadLetter(key, value[:largest_value], headers)
