"""Bodies by the format of their entry: which media types it takes, and how events are read from one."""

from collections.abc import Callable, Mapping
from http import HTTPStatus
from typing import TYPE_CHECKING, Protocol

from edge_service.ingest.reading.events import Events, JsonEvents, Shape
from edge_service.ingest.reading.refusals import BadEvent, Refused
from enrich.config import Format, Ingest

if TYPE_CHECKING:
    from enrich.codecs import SchemaSource

TYPES: Mapping[Format, tuple[bytes, ...]] = {
    Format.json: (b"application/json", b"application/x-ndjson"),
    Format.bytes: (b"application/octet-stream", b"text/plain"),
    Format.string: (b"text/plain", b"application/octet-stream"),
    Format.avro: (b"avro/binary", b"application/avro", b"application/octet-stream"),
}
"""The media types of bodies."""


class FetchFirst(Exception):
    """The body cannot be read before something was fetched that has to be waited for."""

    def __init__(self, what: int) -> None:
        super().__init__(what)
        self.what = what
        """The id of a schema."""


class Bodies(Protocol):
    """Reads the bodies of one entry."""

    types: tuple[bytes, ...]

    def read(self, body: bytes, kind: bytes) -> Events:
        """Raises Refused if the body is not what it should be; what is wrong with single events is in `bad`. Raises
        FetchFirst if `fetch` has to be called first, in a thread that may wait."""

    def fetch(self, what: int) -> None:
        """Gets what is needed to read a body. Raises what the registry's client raises."""


class JsonBodies:
    types = TYPES[Format.json]

    def __init__(self, events: JsonEvents) -> None:
        self._events = events

    def read(self, body: bytes, kind: bytes) -> Events:
        return self._events.read(body, Shape.lines if kind == b"application/x-ndjson" else Shape.json)

    def fetch(self, what: int) -> None:
        """Nothing is needed."""


class SingleBodies:
    """Each body is one event, as it is."""

    def __init__(self, types: tuple[bytes, ...], why_bad: Callable[[bytes], str | None]) -> None:
        self.types = types
        self._why_bad = why_bad

    def read(self, body: bytes, kind: bytes) -> Events:  # noqa: ARG002 - whatever it is called
        if not body:
            raise Refused(HTTPStatus.BAD_REQUEST, "the body has no event")
        reason = self._why_bad(body)
        return Events([body], [None], [None], [] if reason is None else [BadEvent(0, None, reason)])

    def fetch(self, what: int) -> None:
        """Nothing is needed."""


def bodies_of(entry: Ingest, schemas: "Callable[[], SchemaSource | None]") -> Bodies:
    """`schemas` makes the source of Avro schemas. Raises ConfigError for a schema that cannot be used."""
    match entry.format:
        case Format.json:
            return JsonBodies(JsonEvents(path_of(entry.key), path_of(entry.event_time), entry.max_events))
        case Format.avro:
            from edge_service.ingest.reading.avro import AvroBodies  # late: it takes memory that others do not need

            return AvroBodies(entry, schemas())
        case Format.string:
            return SingleBodies(TYPES[Format.string], _why_no_text)
        case Format.bytes:
            return SingleBodies(TYPES[Format.bytes], lambda _: None)


def path_of(field: str | None) -> tuple[str, ...] | None:
    return None if field is None else tuple(field.split("."))


def _why_no_text(body: bytes) -> str | None:
    try:
        body.decode()
    except UnicodeDecodeError as error:
        return f"is not UTF-8 text: byte {error.start}"
    return None
