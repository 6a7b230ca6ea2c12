"""Events to send: lines of a file, each with its time replaced by the one at which it is due."""

import json
from collections.abc import Sequence
from itertools import cycle, islice
from pathlib import Path

from enrich.base.errors import ConfigError

_MOST = 100_000
_TIME_BYTES = 20
"""At most, of a time in ms."""
_MARK = "\x00time\x00"


class Samples:
    """Cut around the time once: an event costs a concatenation."""

    def __init__(self, lines: Sequence[bytes], time_field: str | None, where: str) -> None:
        """`time_field`: as in `event_time` of ingest, parts with dots between them. Raises ConfigError."""
        if not lines:
            raise ConfigError("there are no events in it", where=where)
        parts = [_parted(line, time_field, f"{where}, line {number}") for number, line in enumerate(lines, 1)]
        self._parts = cycle(parts)
        self.largest = max(len(head) + len(tail) + (_TIME_BYTES if is_timed else 0) for head, tail, is_timed in parts)
        """Bytes of the largest event."""

    @classmethod
    def of_file(cls, file: Path, time_field: str | None) -> "Samples":
        try:
            with file.open("rb") as opened:
                lines = [line.strip() for line in islice(opened, _MOST) if line.strip()]
        except OSError as error:
            raise ConfigError(f"cannot be read: {error.strerror}", where=str(file)) from error
        return cls(lines, time_field, str(file))

    def take(self, count: int, time_ms: int) -> Sequence[bytes]:
        now = b"%d" % time_ms
        return [head + now + tail if is_timed else head for head, tail, is_timed in islice(self._parts, count)]


def _parted(line: bytes, time_field: str | None, where: str) -> tuple[bytes, bytes, bool]:
    try:
        event = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"this is no JSON: {error}", where=where) from error
    if time_field is None:
        return line, b"", False
    place = event
    *path, last = time_field.split(".")
    for name in path:
        place = place.get(name) if isinstance(place, dict) else None
    if not isinstance(place, dict):
        raise ConfigError(f"it has no {time_field}, the field of the event's time", where=where)
    place[last] = _MARK
    head, _, tail = json.dumps(event, separators=(",", ":")).partition(json.dumps(_MARK))
    return head.encode(), tail.encode(), True
