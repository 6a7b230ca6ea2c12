"""Takes a body of JSON apart into events, whose bytes stay the sender's, and checks each one before any is produced.

Strict, as a stage's reader is or stricter: what is accepted here is no dead letter there for its JSON. Not UTF-8, NaN
and Infinity, a name twice in an object, deep nesting, half of a surrogate pair, and anything after the end are refused.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from http import HTTPStatus
from typing import Any, NoReturn

import msgspec

from edge_service.ingest.reading.fields import Field as Field
from edge_service.ingest.reading.fields import key_text, time_ms
from edge_service.ingest.reading.quick import DEEPEST, QuickReader
from edge_service.ingest.reading.refusals import BadEvent, Refused

_MOST_VALUES_AN_EVENT = 200
"""For each event that a request may have."""


class Shape(StrEnum):
    """How the events of a body are written."""

    json = "json"
    """One object, or an array of objects."""
    lines = "lines"
    """An object a line."""


@dataclass(slots=True)
class Events:
    """The events of a request, in their order."""

    values: Sequence[bytes]
    keys: Sequence[bytes | None]
    times_ms: Sequence[int | None]
    """Event times."""
    bad: Sequence[BadEvent] = field(default=())
    """What cannot be written. These events are in `values` too, with None as key and time."""


class JsonEvents:
    """Reads the bodies of one endpoint."""

    def __init__(self, key: Field | None, event_time: Field | None, most: int) -> None:
        """`most`: events in a request."""
        self._key = key
        self._event_time = event_time
        self._most = most
        self._quick = QuickReader(key, event_time, most)

    def read(self, body: bytes, shape: Shape) -> Events:
        """Raises Refused if the body is not what it should be; what is wrong with single events is in `bad`."""
        try:
            text = body.decode()
        except UnicodeDecodeError as error:
            raise Refused(HTTPStatus.BAD_REQUEST, f"the body is not UTF-8 text: byte {error.start}") from None
        self._require_few_values(body)
        if (parts := self._quick.read(body, is_lines=shape is Shape.lines)) is not None:
            return Events(*parts, [])
        return self.read_exactly(body, text, shape)

    def read_exactly(self, body: bytes, text: str, shape: Shape) -> Events:
        """The same, slowly: it decides whatever is not plain, and knows what is wrong."""
        values, parsed = self._lines(body) if shape is Shape.lines else self._json(body, text)
        return self._checked(values, parsed)

    def _json(self, body: bytes, text: str) -> tuple[list[bytes], list[Any]]:
        if text.lstrip(" \t\r\n")[:1] != "[":
            one = body.strip(b" \t\r\n")
            self._require_flat([one])
            parsed_one = _parsed(text, "")
            if _elements_or_none(b"[" + one + b"]") is None:
                raise _half_pair()
            return [one], [parsed_one]
        values = _elements(body, text)
        self._require_few(len(values))
        self._require_flat(values)
        parsed: list[Any] = _parsed(text, "")
        return values, parsed

    def _lines(self, body: bytes) -> tuple[list[bytes], list[Any]]:
        values = [line for part in body.split(b"\n") if (line := part.strip(b" \t\r"))]
        self._require_few(len(values))
        self._require_flat(values)
        joined = b"[" + b",".join(values) + b"]"
        # Lines that are no values by themselves may be some together: `{"a": [1` and `2]}`.
        if _elements_or_none(joined) != values:
            for index, line in enumerate(values):
                _parsed(line.decode(), f" of line {index + 1}")
            raise (
                _half_pair()
                if _elements_or_none(joined) is None
                else Refused(HTTPStatus.BAD_REQUEST, "a line is no JSON value")
            )
        parsed: list[Any] = _parsed(joined.decode(), "")
        return values, parsed

    def _checked(self, values: list[bytes], parsed: list[Any]) -> Events:
        keys: list[bytes | None] = [None] * len(values)
        times: list[int | None] = [None] * len(values)
        bad: list[BadEvent] = []
        for index, event in enumerate(parsed):
            if type(event) is not dict:
                bad.append(BadEvent(index, None, "an event is a JSON object"))
                continue
            try:
                if self._key is not None:
                    keys[index] = _key(event, self._key)
                if self._event_time is not None:
                    times[index] = _time_ms(event, self._event_time)
            except _Wrong as wrong:
                keys[index] = times[index] = None
                bad.append(BadEvent(index, ".".join(wrong.field), wrong.reason))
        return Events(values, keys, times, bad)

    def _require_few_values(self, body: bytes) -> None:
        """A body of 8 MiB that is all `{},` would take half a gigabyte of memory, and the process for seconds."""
        most = _MOST_VALUES_AN_EVENT * self._most
        if len(body) > most and sum(map(body.count, (b",", b"[", b"{", b"\n"))) > most:
            raise Refused(
                HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
                f"more than {most} commas, brackets and lines; a request with fewer events has fewer",
            )

    def _require_few(self, count: int) -> None:
        if count > self._most:
            raise Refused(
                HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"{count} events, of which a request may have {self._most}"
            )
        if count == 0:
            raise Refused(HTTPStatus.BAD_REQUEST, "the body has no event")

    @staticmethod
    def _require_flat(values: list[bytes]) -> None:
        for index, value in enumerate(values):
            # Few values have so many brackets. Whether they are in each other is looked at only then.
            if value.count(b"{") + value.count(b"[") > DEEPEST and _depth(value) > DEEPEST:
                raise Refused(HTTPStatus.BAD_REQUEST, f"event {index} is nested deeper than {DEEPEST}")


class _Wrong(Exception):
    def __init__(self, field: Field, reason: str) -> None:
        super().__init__(reason)
        self.field = field
        self.reason = reason


def _elements(body: bytes, text: str) -> list[bytes]:
    """The elements of an array, as their bytes."""
    found = _elements_or_none(body)
    if found is None:
        _parsed(text, "")  # it knows better what is wrong
        raise _half_pair()
    return found


def _half_pair() -> Refused:
    return Refused(HTTPStatus.BAD_REQUEST, "not strict JSON: half of a surrogate pair")


_RAWS = msgspec.json.Decoder(list[msgspec.Raw])


def _elements_or_none(body: bytes) -> list[bytes] | None:
    try:
        return [bytes(raw) for raw in _RAWS.decode(body)]
    except (msgspec.DecodeError, RecursionError):
        return None


def _parsed(text: str, where: str) -> Any:
    try:
        return _STRICT.decode(text)
    except json.JSONDecodeError as error:
        raise Refused(HTTPStatus.BAD_REQUEST, f"not JSON{where}: {error.msg} at character {error.pos}") from None
    except ValueError as error:  # ours, and Python's for whole numbers of more than 4,300 digits
        raise Refused(HTTPStatus.BAD_REQUEST, f"not strict JSON{where}: {error}") from None
    except RecursionError:
        raise Refused(HTTPStatus.BAD_REQUEST, f"nested deeper than {DEEPEST}{where}") from None


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("an object has a name twice")
    return found


def _constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON number")


_STRICT = json.JSONDecoder(object_pairs_hook=_object, parse_constant=_constant)


def _depth(value: bytes) -> int:
    """How many brackets are open at once, those within strings apart."""
    deepest = depth = 0
    is_string = is_escaped = False
    for byte in value:
        if is_string:
            if is_escaped:
                is_escaped = False
            elif byte == 0x5C:
                is_escaped = True
            elif byte == 0x22:
                is_string = False
        elif byte == 0x22:
            is_string = True
        elif byte in b"{[":
            depth += 1
            deepest = max(deepest, depth)
        elif byte in b"}]":
            depth -= 1
    return deepest


def _at(event: dict[str, Any], path: Field) -> Any:
    found: Any = event
    for name in path:
        found = found.get(name) if type(found) is dict else None
        if found is None:
            raise _Wrong(path, "is missing")
    return found


def _key(event: dict[str, Any], path: Field) -> bytes:
    key = key_text(_at(event, path))
    if key is None:
        raise _Wrong(path, "is a key, and must be text, a whole number, true or false")
    return key


def _time_ms(event: dict[str, Any], path: Field) -> int:
    time = time_ms(_at(event, path))
    if time is None:
        raise _Wrong(path, "must be milliseconds since 1970, or ISO 8601 text with a zone")
    return time
