"""Writes events that are not delivered to another topic: a retry topic, or the DLQ. An event is only settled once the
in-sync replicas have it there."""

import asyncio
import itertools
import logging
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from edge_service.expel.lane.events import Became, Event
from enrich.base.backoff import Backoff
from enrich.base.errors import EnrichError, Retryable
from enrich.delivery.refused.letters import Letters
from enrich.kafka.clients.ending import discard, is_over, serve
from enrich.kafka.clients.errors import MISSING_TOPIC, TOO_LARGE, mapped
from enrich.kafka.clients.making import Connection, new_producer
from enrich.kafka.identity import ORIGIN, identity_of
from enrich.kafka.retries import RETRY_HEADERS, retry_headers, topic_id_in
from enrich.kafka.writing.dead_letters import Origin, sender_of

_log = logging.getLogger("enrich.expel")

_POLL_S = 0.005
_LATE_S = 30.0
"""If a record has no answer for so long, it is said that events wait."""
_FOR_EVER = 0
"""How long the producer tries to write a record. It writes it once, whichever acknowledgement is lost; one that it had
given up could stand in the topic already, and would be written again."""
Headers = list[tuple[str, str | bytes | None]]
Done = Callable[[], None]
Taken = Callable[[int], None]
"""Is called with the offset of the record."""


@dataclass(frozen=True, slots=True)
class _Record:
    topic: str
    key: bytes | None
    value: bytes | None
    headers: Headers
    partition: int
    """-1: by its key."""


class Outbox:
    """For one route, on the loop's thread. Its producer begins when it is first needed."""

    def __init__(
        self,
        connection: Connection,
        retry_topics: Sequence[tuple[str, int]],
        dlq: str,
        letters: Letters,
        sender: str,
        topic_id: str,
    ) -> None:
        """`retry_topics`: the name and the number of partitions of each, by the number of its pause. `topic_id`: of the
        route's topic."""
        self._connection = connection
        self._retry_topics = retry_topics
        self._dlq = dlq
        self._letters = letters
        self._sender = sender
        self._topic_id = topic_id
        self._loop = asyncio.get_running_loop()
        self._producer: Producer | None = None
        self._poller: asyncio.TimerHandle | None = None
        self._backoff = Backoff(0.2, 10.0)
        self._is_closed = False
        self._numbers = itertools.count()
        self._since_s: dict[int, float] = {}
        """When each record that has no answer yet was given to the producer, the oldest first."""
        self.trouble: str | None = None
        """Why events cannot be written now; they are tried again."""
        self.trouble_ms: int | None = None
        self.failure: EnrichError | None = None
        """A topic is missing, or the producer is of no use any more: both are made again when the route begins
        again."""

    def retry(self, event: Event, pause: int, tries: int, too_large: Done, taken: Taken) -> None:
        """Writes it to the topic of this pause, with its place and with how many pauses it has used up. `too_large` is
        called instead of `taken` if the topic does not take it."""
        event.became = Became.waits
        topic, partitions = self._retry_topics[pause]
        headers: Headers = [*_own_headers(event)]
        if identity_of(event.headers())[0] is None:
            headers.append((ORIGIN, b"%b/%d" % (event.origin_place, event.origin)))
        headers += retry_headers(event.place, event.since_ms, tries, self._topic_id_of(event))
        record = _Record(topic, event.key, event.value, headers, event.place[1] % partitions)
        self._write(record, taken, too_large)

    def bury(self, event: Event, reason: str, done: Done) -> None:
        """Writes it to the DLQ, cut if it is too large."""
        event.became = Became.dead
        origin = Origin(*event.place, event.key, event.value, _own_headers(event))
        try:
            letter = self._letters.letter(origin, reason, self._sender_of(event))
        except Retryable as error:
            self._again(error, partial(self.bury, event, reason, done))
            return
        if letter is None:  # it is in a file
            done()
            return
        record = _Record(self._dlq, letter.key, letter.value, [*letter.headers], -1)
        # The DLQ takes less than it says: what a letter can be cut to, it is.
        self._write(record, lambda _: done(), partial(self.bury_small, event, reason, done))

    def bury_small(self, event: Event, reason: str, done: Done) -> None:
        """Keeps it in the file of this host: the DLQ takes it in no form."""
        origin = Origin(*event.place, event.key, event.value, _own_headers(event))
        try:
            self._letters.keep(origin, reason, self._sender_of(event))
        except Retryable as error:
            self._again(error, partial(self.bury_small, event, reason, done))
        else:
            done()

    async def close(self) -> None:
        """What is not acknowledged yet is not settled: whoever reads it next delivers it."""
        self._is_closed = True
        if self._poller is not None:
            self._poller.cancel()
        if self._producer is not None:
            producer, self._producer = self._producer, None
            discard(producer)

    def _topic_id_of(self, event: Event) -> str:
        return self._topic_id if event.is_first_read else topic_id_in(event.headers())

    def _sender_of(self, event: Event) -> str:
        return sender_of(self._sender, self._topic_id_of(event))

    def _write(self, record: _Record, taken: Taken, too_large: Done) -> None:
        if self._is_closed:
            return

        number = next(self._numbers)

        def reported(error: KafkaError | None, message: Message) -> None:
            del self._since_s[number]
            if error is None:
                if not self._is_late():
                    self.trouble = None
                self._backoff.reset()
                taken(message.offset() or 0)
            elif error.code() in TOO_LARGE:
                too_large()
            else:
                self._refused(error, record, taken, too_large)

        try:
            producer = self._begun()
            producer.produce(
                record.topic,
                record.value,
                record.key,
                partition=record.partition,
                headers=record.headers,
                on_delivery=reported,
            )
            self._since_s[number] = self._loop.time()
        except BufferError:
            self._loop.call_later(_POLL_S * 4, self._write, record, taken, too_large)
        except KafkaException as exception:
            error = exception.args[0]
            if error.code() in TOO_LARGE:
                too_large()
            else:
                self._refused(error, record, taken, too_large)
        if self._poller is None:
            self._poll()

    def _refused(self, error: KafkaError, record: _Record, taken: Taken, too_large: Done) -> None:
        where = f"topic {record.topic}"
        if error.code() in MISSING_TOPIC:
            self.failure = Retryable(f"Kafka: {error.str()}", where=where, next_step="the route makes it by itself")
        self._look_at(error)
        self._again(mapped(error, where), partial(self._write, record, taken, too_large))

    def _look_at(self, error: KafkaError) -> None:
        if is_over(error):
            what = f"Kafka: the producer can do nothing any more: {error.str()}"
            self.failure = Retryable(what, next_step="the route begins again with a new one")

    def _begun(self) -> Producer:
        if self._producer is None:
            self._producer = new_producer(self._connection, **{"message.timeout.ms": _FOR_EVER, "linger.ms": 5})
        return self._producer

    def _poll(self) -> None:
        producer = self._producer
        if producer is None:
            return
        if (error := serve(producer, 0)) is not None:
            self._look_at(error)
        if self.trouble is None and self._is_late():
            self._note(f"no broker has acknowledged it for {_LATE_S:g} s; the producer goes on trying")
        self._poller = self._loop.call_later(_POLL_S, self._poll) if len(producer) else None

    def _again(self, error: EnrichError, write: Done) -> None:
        if self._is_closed:
            return
        self._note(str(error))
        self._loop.call_later(self._backoff.next_s(), write)

    def _is_late(self) -> bool:
        return self._loop.time() > next(iter(self._since_s.values()), math.inf) + _LATE_S

    def _note(self, trouble: str) -> None:
        if self.trouble is None:
            _log.warning("an event cannot be written to another topic, and waits: %s", trouble)
        self.trouble, self.trouble_ms = trouble, time.time_ns() // 10**6


def _own_headers(event: Event) -> list[tuple[str, bytes | None]]:
    """Without those of retry topics."""
    return [(name, content) for name, content in event.headers() if name not in RETRY_HEADERS]
