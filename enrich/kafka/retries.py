"""Headers of events that wait in a route's retry topics, beside those of the event itself."""

import re
from collections.abc import Iterable, Mapping, Sequence

from confluent_kafka import Message

from enrich.kafka.records import Place, headers_of, key_of, own_place, value_of
from enrich.kafka.writing.dead_letters import Origin

TOPIC, PARTITION, OFFSET = "enrich.topic", "enrich.partition", "enrich.offset"
"""The place of the event in the route's topic."""
TIMESTAMP = "enrich.timestamp"
"""The time of the record in the route's topic, in ms since 1970: the event's age counts from it."""
TRIES = "enrich.tries"
"""How many pauses it has used up."""

TOPIC_ID = "enrich.topic_id"
"""The id of the route's topic: in one that was made again other events have the same places."""

RETRY_HEADERS = (TOPIC, PARTITION, OFFSET, TIMESTAMP, TRIES, TOPIC_ID)

_ID = re.compile(rb"[A-Za-z0-9+/=_-]{1,64}")


def retry_headers(place: Place, timestamp_ms: int, tries: int, topic_id: str = "") -> Sequence[tuple[str, bytes]]:
    """`topic_id`: empty if it is not known."""
    known = RETRY_HEADERS if topic_id else RETRY_HEADERS[:-1]
    values = (*place, timestamp_ms, tries, topic_id)[: len(known)]
    return [(name, str(value).encode()) for name, value in zip(known, values, strict=True)]


def as_first_read(message: Message) -> Origin:
    """The event of a record in a retry topic: its place in the route's topic, and its own headers.

    A record of another program, which lacks these headers, is taken for an event of its own place.
    """
    headers = headers_of(message)
    known = {name: content for name, content in headers if name in RETRY_HEADERS and content is not None}
    own = [(name, content) for name, content in headers if name not in RETRY_HEADERS]
    return Origin(*(place_of(known) or own_place(message)), key_of(message), value_of(message), own)


def place_of(headers: Mapping[str, bytes]) -> Place | None:
    """By the headers; None if they are not all there and right."""
    try:
        return headers[TOPIC].decode(), int(headers[PARTITION]), int(headers[OFFSET])
    except (KeyError, ValueError):
        return None


def topic_id_in(headers: Iterable[tuple[str, bytes | None]]) -> str:
    """Anybody may write into a topic: what is no id is taken for missing."""
    found = next((content for name, content in headers if name == TOPIC_ID), None)
    return found.decode() if found is not None and _ID.fullmatch(found) else ""
