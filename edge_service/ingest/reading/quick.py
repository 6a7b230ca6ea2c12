"""Reads bodies in which nothing is doubtful, quickly: it takes only what the exact reader (`events.py`) would take, and
leaves all else to that one, also to say what is wrong.

The one thing that no fast parser tells is whether an object has a name twice: what they return has it once. Then it
has fewer names than the text. And the text has no more names than colons; nor more than it has `":`, if no colon comes
after space. So if what was read has as many names as one of these, no name was there twice.
"""

from collections.abc import Callable, Iterable
from operator import itemgetter
from typing import Any

import msgspec

from edge_service.ingest.reading.fields import EARLIEST_MS, LATEST_MS, Field, key_text, time_ms

Parts = tuple[list[bytes], list[bytes | None], list[int | None]]
"""The bytes of events, their keys, their times."""

DEEPEST = 128
"""Brackets that may be open at once."""

_RAWS = msgspec.json.Decoder(list[msgspec.Raw])
_ALL = msgspec.json.Decoder(list[dict[str, Any]])
_ONE = msgspec.json.Decoder(dict[str, Any])
_SPACE = b" \t\r\n"
_SPACE_AND_COLON = tuple(bytes([space]) + b":" for space in _SPACE)


class QuickReader:
    """For the bodies of one endpoint."""

    def __init__(self, key: Field | None, event_time: Field | None, most: int) -> None:
        """`most`: events in a request."""
        self._key = None if key is None else _getter(key)
        self._event_time = None if event_time is None else _getter(event_time)
        self._most = most

    def read(self, body: bytes, *, is_lines: bool) -> Parts | None:
        """None: the exact reader has to look at it. The body is UTF-8 text."""
        try:
            values, events = _lines(body) if is_lines else _json(body)
            if not 0 < len(values) <= self._most or not _has_each_name_once(body, events):
                return None
            keys: list[bytes | None] = [None] * len(values)
            times: list[int | None] = [None] * len(values)
            if self._key is not None:
                keys = [key.encode() if type(key) is str else key_text(key) for key in map(self._key, events)]
                if None in keys:
                    return None
            if self._event_time is not None:
                times = [
                    time if type(time) is int and EARLIEST_MS <= time <= LATEST_MS else time_ms(time)
                    for time in map(self._event_time, events)
                ]
                if None in times:
                    return None
        except (ValueError, LookupError, TypeError, RecursionError):
            return None  # no JSON, a field that is not there, text that is half of a surrogate pair
        return values, keys, times


def _json(body: bytes) -> tuple[list[bytes], list[dict[str, Any]]]:
    text = body.strip(_SPACE)
    if text[:1] != b"[":
        return [text], [_ONE.decode(text)]
    return [bytes(raw) for raw in _RAWS.decode(text)], _ALL.decode(text)


def _lines(body: bytes) -> tuple[list[bytes], list[dict[str, Any]]]:
    values = [line for part in body.split(b"\n") if (line := part.strip(_SPACE))]
    return values, [_ONE.decode(line) for line in values]


def _has_each_name_once(text: bytes, events: list[dict[str, Any]]) -> bool:
    """False also where it is in doubt."""
    names = sum(map(len, events))
    if text.count(b"{") > len(events) or text.count(b"[") >= DEEPEST:  # else all values are flat
        names += sum(_names(event.values(), 1) for event in events)
    if text.count(b":") == names:
        return True
    return not any(pair in text for pair in _SPACE_AND_COLON) and text.count(b'":') == names


def _names(values: Iterable[Any], depth: int) -> int:
    """How many are in these values. Raises RecursionError."""
    if depth > DEEPEST:
        raise RecursionError
    count = 0
    for value in values:
        if type(value) is dict:
            count += len(value) + _names(value.values(), depth + 1)
        elif type(value) is list:
            count += _names(value, depth + 1)
    return count


def _getter(path: Field) -> Callable[[Any], Any]:
    first, *rest = map(itemgetter, path)
    if not rest:
        return first

    def get(event: Any) -> Any:
        found = first(event)
        for inner in rest:
            found = inner(found)
        return found

    return get
