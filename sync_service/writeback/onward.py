"""Where a record goes that the store does not take: to the next retry topic while it may pass, else to the DLQ."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from typing import Any

from confluent_kafka import Message

from enrich.base.errors import BadRecord, EnrichError, RefusedForNow
from enrich.delivery.spill import Spill
from enrich.kafka import DeliveringProducer
from enrich.kafka.records import headers_of
from enrich.kafka.writing.dead_letters import DeadLetter, Origin, dead_letter, fitted, record_size
from sync_service.writeback.versions import HEADER

_PLACE = ("enrich.topic", "enrich.partition", "enrich.offset")
TOPIC_ID = "enrich.topic_id"
"""The header that says in a retry topic which topic of its name a record was read from."""


@dataclass(frozen=True)
class Ways:
    """From one topic of a route."""

    route: str
    dlq: str
    retry_topic: str | None
    """None: there is no (further) try."""
    pipeline: str
    from_retry_topic: bool = False
    topic_id: str = ""
    """Of the topic that is read, where it is none of the retry topics."""

    def sender(self, topic_id: str) -> str:
        """Of letters, as their keys have it."""
        return "/".join(part for part in (f"{self.pipeline}.sync.{self.route}", topic_id) if part)


class BrokenProducer(Exception):
    """A record could not be sent on: the route must begin again, with another producer."""

    def __init__(self, error: EnrichError) -> None:
        super().__init__(str(error))
        self.error = error


@contextmanager
def _producing() -> Iterator[None]:
    try:
        yield
    except EnrichError as error:
        raise BrokenProducer(error) from error


class Onward:
    """Sends records on, with their original place and version. Nothing is safe before `flush` has returned.

    `room`: what a record may take in their topics, in bytes. One that is too large for a retry topic is buried at once,
    and a letter is cut until it fits; what does not fit at all is spilled. So none of them keeps others waiting.
    """

    def __init__(self, producer: DeliveringProducer, ways: Ways, room: int, spill: Spill) -> None:
        self._producer = producer
        self._ways = ways
        self._room = room
        self._spill = spill

    def refused(self, message: Message, version: int | None, error: BadRecord) -> bool:
        """True when the record will be tried again."""
        if self._ways.retry_topic is None or not isinstance(error, RefusedForNow):
            self.bury(message, version, error.what)
            return False
        origin = origin_of(message, from_retry_topic=self._ways.from_retry_topic)
        own: dict[str, Any] = dict(zip(_PLACE, (origin.topic, origin.partition, origin.offset), strict=True))
        if not self._ways.from_retry_topic:
            own[TOPIC_ID] = self._ways.topic_id
        headers = [(name, content) for name, content in _versioned(origin, version) if name not in own]
        headers += [(name, str(content).encode()) for name, content in own.items()]
        if record_size(origin.key, origin.value, headers) > self._room:
            self.bury(message, version, f"{error.what}; it is too large for the retry topic")
            return False
        with _producing():
            self._producer.produce(self._ways.retry_topic, origin.key, origin.value, headers=headers)
        return True

    def bury(self, message: Message, version: int | None, reason: str) -> None:
        origin = origin_of(message, from_retry_topic=self._ways.from_retry_topic)
        versioned = Origin(
            origin.topic, origin.partition, origin.offset, origin.key, origin.value, _versioned(origin, version)
        )
        topic_id = self._ways.topic_id
        if self._ways.from_retry_topic:
            topic_id = (dict(versioned.headers).get(TOPIC_ID) or b"").decode(errors="replace")
            headers = [(name, content) for name, content in versioned.headers if name != TOPIC_ID]
            versioned = replace(versioned, headers=headers)
        own = {"stage": self._ways.route, "sender": self._ways.sender(topic_id)}
        letter = fitted(dead_letter(versioned, reason, **own, largest_value=max(self._room, 0)), self._room)
        if letter is None:
            self._spill.keep(dead_letter(versioned, reason, **own, largest_value=len(origin.value or b"")))
        else:
            self._send(letter)

    def _send(self, letter: DeadLetter) -> None:
        with _producing():
            self._producer.produce(self._ways.dlq, letter.key, letter.value, headers=letter.headers)

    def flush(self) -> None:
        with _producing():
            self._producer.flush()


def origin_of(message: Message, *, from_retry_topic: bool) -> Origin:
    """Where the record stood first: what came through a retry topic says so in its headers."""
    headers = headers_of(message)
    known = dict(headers) if from_retry_topic else {}
    place: list[Any] = [known.get(name) for name in _PLACE]
    topic, partition, offset = message.topic() or "", message.partition() or 0, message.offset() or 0
    with suppress(ValueError, TypeError, AttributeError):  # somebody else's headers, or none
        topic, partition, offset = place[0].decode(), int(place[1]), int(place[2])
    key, value = message.key(), message.value()
    return Origin(topic, partition, offset, _bytes(key), _bytes(value), headers)


def _versioned(origin: Origin, version: int | None) -> list[tuple[str, bytes | None]]:
    headers = list(origin.headers)
    if version is not None and HEADER not in dict(headers):
        headers.append((HEADER, str(version).encode()))
    return headers


def _bytes(content: str | bytes | None) -> bytes | None:
    return content.encode() if isinstance(content, str) else content
