"""Sends records that the store refuses to the next retry topic if they may be accepted later, else to the DLQ."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from confluent_kafka import Message

from enrich.base.errors import BadRecord, EnrichError, RefusedForNow
from enrich.delivery.refused.letters import Letters
from enrich.delivery.refused.spill import Spill
from enrich.kafka import DeliveringProducer
from enrich.kafka.identity import VERSION
from enrich.kafka.records import headers_of, key_of, own_place, value_of
from enrich.kafka.retries import OFFSET, PARTITION, TOPIC, TOPIC_ID, place_of, topic_id_in
from enrich.kafka.writing.dead_letters import DeadLetter, Origin, record_size, sender_of

_POSITION = (TOPIC, PARTITION, OFFSET)


@dataclass(frozen=True)
class Destinations:
    """Where records of one topic of a route are sent on to."""

    route: str
    dlq: str
    retry_topic: str | None
    """None: there is no further try."""
    pipeline: str
    from_retry_topic: bool = False
    topic_id: str = ""
    """Id of the route's topic; not used for records of a retry topic, which carry it in a header."""

    def sender(self, topic_id: str) -> str:
        """The sender in the keys of dead letters."""
        return sender_of(f"{self.pipeline}.sync.{self.route}", topic_id)


class BrokenProducer(Exception):
    """A record could not be sent on: the route must start again with a new producer."""

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
    """Sends records on, with their original position and version. They are only safe when `flush` has returned.

    `room`: the largest record that these topics take, in bytes. A record that is too large for a retry topic goes to
    the DLQ at once. A dead letter is cut until it fits, or spilled to a file. So none of them blocks the others.
    """

    def __init__(self, producer: DeliveringProducer, destinations: Destinations, room: int, spill: Spill) -> None:
        self._producer = producer
        self._destinations = destinations
        self._room = room
        self._letters = Letters(destinations.route, room, spill)

    def refused(self, message: Message, version: int | None, error: BadRecord) -> bool:
        """Sends a refused record on. True if it will be tried again."""
        if self._destinations.retry_topic is None or not isinstance(error, RefusedForNow):
            self.bury(message, version, error.what)
            return False
        origin = origin_of(message, from_retry_topic=self._destinations.from_retry_topic)
        own: dict[str, Any] = dict(zip(_POSITION, (origin.topic, origin.partition, origin.offset), strict=True))
        if not self._destinations.from_retry_topic:
            own[TOPIC_ID] = self._destinations.topic_id
        headers = [(name, content) for name, content in _versioned(origin, version) if name not in own]
        headers += [(name, str(content).encode()) for name, content in own.items()]
        if record_size(origin.key, origin.value, headers) > self._room:
            self.bury(message, version, f"{error.what}; it is too large for the retry topic")
            return False
        with _producing():
            self._producer.produce(self._destinations.retry_topic, origin.key, origin.value, headers=headers)
        return True

    def bury(self, message: Message, version: int | None, reason: str) -> None:
        origin = origin_of(message, from_retry_topic=self._destinations.from_retry_topic)
        versioned = Origin(
            origin.topic, origin.partition, origin.offset, origin.key, origin.value, _versioned(origin, version)
        )
        topic_id = self._destinations.topic_id
        if self._destinations.from_retry_topic:
            topic_id = topic_id_in(versioned.headers)
            headers = [(name, content) for name, content in versioned.headers if name != TOPIC_ID]
            versioned = replace(versioned, headers=headers)
        letter = self._letters.letter(versioned, reason, self._destinations.sender(topic_id))
        if letter is not None:
            self._send(letter)

    def _send(self, letter: DeadLetter) -> None:
        with _producing():
            self._producer.produce(self._destinations.dlq, letter.key, letter.value, headers=letter.headers)

    def flush(self) -> None:
        with _producing():
            self._producer.flush()


def origin_of(message: Message, *, from_retry_topic: bool) -> Origin:
    """Where the record was first read; a record of a retry topic has that in its headers."""
    headers = headers_of(message)
    known = {name: content for name, content in headers if content is not None} if from_retry_topic else {}
    return Origin(*(place_of(known) or own_place(message)), key_of(message), value_of(message), headers)


def _versioned(origin: Origin, version: int | None) -> list[tuple[str, bytes | None]]:
    headers = list(origin.headers)
    if version is not None and VERSION not in dict(headers):
        headers.append((VERSION, str(version).encode()))
    return headers
