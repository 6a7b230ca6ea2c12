"""Reads bodies in which nothing is doubtful, quickly: it takes only what the exact reader (`events.py`) would take, and
leaves all else to that one, also to say what is wrong."""

from collections.abc import Mapping
from operator import attrgetter
from typing import Any

import msgspec

from edge_service.ingest.fields import EARLIEST_MS, LATEST_MS, Field, key_text, time_ms
from edge_service.ingest.names import are_names_plain, compile_pass

Parts = tuple[list[bytes], list[bytes | None], list[int | None]]
"""The bytes of events, their keys, their times."""

_RAWS = msgspec.json.Decoder(list[msgspec.Raw])
_SPACE = b" \t\r\n"


class QuickReader:
    """For the bodies of one endpoint. For one thread."""

    def __init__(self, key: Field | None, event_time: Field | None, most: int) -> None:
        """`most`: events in a request. Raises ValueError if one of the fields is within the other: then no event has
        both."""
        wanted: dict[Field, Any] = {}
        if key is not None:
            wanted[key] = str | int | bool
        if event_time is not None:
            wanted[event_time] = str | int
        event, attributes = _struct(wanted)
        self._one = msgspec.json.Decoder(event)
        self._many: msgspec.json.Decoder[list[Any]] = msgspec.json.Decoder(list[event])  # type: ignore[valid-type]
        self._key = None if key is None else attrgetter(attributes[key])
        self._event_time = None if event_time is None else attrgetter(attributes[event_time])
        self._most = most
        compile_pass()

    def read(self, body: bytes, *, is_lines: bool) -> Parts | None:
        """None: the exact reader has to look at it. The body is UTF-8 text."""
        if not are_names_plain(body):
            return None
        try:
            values, events = self._lines(body) if is_lines else self._json(body)
        except msgspec.DecodeError:
            return None
        if not 0 < len(values) <= self._most:
            return None
        keys: list[bytes | None] = [None] * len(values)
        times: list[int | None] = [None] * len(values)
        if self._key is not None:
            keys = [key.encode() if type(key) is str else key_text(key) for key in map(self._key, events)]
        if self._event_time is not None:
            times = [
                time if type(time) is int and EARLIEST_MS <= time <= LATEST_MS else time_ms(time)
                for time in map(self._event_time, events)
            ]
            if None in times:
                return None
        return values, keys, times

    def _json(self, body: bytes) -> tuple[list[bytes], list[Any]]:
        text = body.strip(_SPACE)
        if text[:1] != b"[":
            return [text], [self._one.decode(text)]
        return [bytes(raw) for raw in _RAWS.decode(text)], self._many.decode(text)

    def _lines(self, body: bytes) -> tuple[list[bytes], list[Any]]:
        values = [line for part in body.split(b"\n") if (line := part.strip(_SPACE))]
        return values, [self._one.decode(line) for line in values]


def _struct(wanted: Mapping[Field, Any]) -> tuple[type[msgspec.Struct], dict[Field, str]]:
    """A type with these fields alone, and the attribute in which each is found."""
    inner: dict[str, dict[Field, Any]] = {}
    for path, kind in wanted.items():
        inner.setdefault(path[0], {})[path[1:]] = kind
    fields: list[tuple[str, Any]] = []
    names: dict[str, str] = {}
    attributes: dict[Field, str] = {}
    for number, (name, below) in enumerate(inner.items()):
        attribute = f"field{number}"
        names[attribute] = name
        if () in below:
            if len(below) > 1:
                raise ValueError(f"{name} is a value, and cannot have fields too")
            fields.append((attribute, below[()]))
            attributes[(name,)] = attribute
            continue
        kind, deeper = _struct(below)
        fields.append((attribute, kind))
        attributes |= {(name, *path): f"{attribute}.{place}" for path, place in deeper.items()}
    return msgspec.defstruct("Event", fields, rename=names, gc=False), attributes
