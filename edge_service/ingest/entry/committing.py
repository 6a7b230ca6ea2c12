"""Writes the events of requests to a topic, and says when the in-sync replicas have all of one.

Requests that arrive together share what the client sends: it waits `linger.ms` for more records. Nothing is flushed:
the delivery reports of each request are counted.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from edge_service.ingest.reading.events import Events
from enrich.base.errors import EnrichError, Retryable
from enrich.kafka.clients.ending import discard, is_over, serve
from enrich.kafka.clients.errors import mapped
from enrich.kafka.clients.making import Connection, new_producer
from enrich.kafka.identity import EVENT_TIME
from enrich.kafka.writing.dead_letters import DeadLetter

_log = logging.getLogger("enrich.ingest")

Report = Callable[[KafkaError | None, Message], None]
Headers = list[tuple[str, str | bytes | None]]

_POLL_S = 0.001
_MOST_QUEUED = 500_000
"""Records in the client's queue."""


class Written:
    """What became of the records of a request."""

    __slots__ = ("failure", "missing", "origins", "when_done")

    def __init__(self, count: int, when_done: "Callable[[Written], None]", *, with_origins: bool) -> None:
        self.missing = count
        self.failure: EnrichError | None = None
        self.origins: list[str | None] | None = [None] * count if with_origins else None
        """By the number of the event: topic/partition/offset."""
        self.when_done = when_done

    def delivered(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self._fail(mapped(error, f"topic {message.topic()}"))
        self._count()

    def refused(self, error: KafkaException | BufferError, topic: str) -> None:
        """The client did not even take a record: its queue is full, or the record is too large for it."""
        reason = error.args[0] if error.args else None
        where = f"topic {topic}"
        self._fail(
            mapped(reason, where) if isinstance(reason, KafkaError) else Retryable("the queue is full", where=where)
        )
        self._count()

    def _fail(self, error: EnrichError) -> None:
        self.failure = self.failure or error

    def _count(self) -> None:
        self.missing -= 1
        if not self.missing:
            self.when_done(self)

    def delivered_as(self, index: int, report: Report) -> Report:
        """The same report, which also keeps the origin of the event with this number."""

        def delivered(error: KafkaError | None, message: Message) -> None:
            if error is None and self.origins is not None:
                self.origins[index] = f"{message.topic()}/{message.partition()}/{message.offset()}"
            report(error, message)

        return delivered


class Writer:
    """One producer on an event loop."""

    def __init__(self, connection: Connection, loop: asyncio.AbstractEventLoop, deadline_s: float) -> None:
        """`deadline_s`: a record that is not acknowledged by then is not tried any more."""
        deadline_ms = max(1, round(deadline_s * 1000))
        own: dict[str, Any] = {
            # Above this a record may appear in the log after its sender was told that it is not there. It has a price:
            # when a record times out, the client numbers all anew that it still has, and what of it a broker has
            # already is written again (docs/adr/0041). Without numbers that happens when leaders move.
            "message.timeout.ms": deadline_ms,
            # A broker that waits for other copies reads nothing more of a connection meanwhile. What was sent behind
            # it was written half a minute later, long after its senders had got a 503. With one request at a time
            # batches are larger instead: no fewer events a second, and less processor time.
            "max.in.flight.requests.per.connection": 1,
            "request.timeout.ms": deadline_ms,
            "linger.ms": 2,
            "queue.buffering.max.messages": _MOST_QUEUED,
        }
        self._make: Callable[[], Producer] = partial(new_producer, connection, **own)
        self._producer = self._make()
        self._broken: KafkaError | None = None
        """Why the producer can do nothing any more."""
        self._loop = loop
        self._is_polling = False

    def has_room(self, count: int) -> bool:
        return len(self._producer) + count <= _MOST_QUEUED

    def write(self, topic: str, events: Events, written: Written, came_ms: int, reports: Sequence[Report] = ()) -> None:
        """Calls `written.when_done` once all are acknowledged, or have failed. `came_ms`: the time of their records,
        unless the topic has the brokers' instead. `reports`: of each event the delivery report, which tells `written`;
        without them `written` alone is told."""
        produce = self._producer.produce
        report: Report = written.delivered
        for index, (value, key, time_ms) in enumerate(zip(events.values, events.keys, events.times_ms, strict=True)):
            headers: Headers | None = None if time_ms is None else [(EVENT_TIME, b"%d" % time_ms)]
            if reports:
                report = reports[index]
            own = report if written.origins is None else written.delivered_as(index, report)
            try:
                produce(topic, value, key, headers=headers, timestamp=came_ms, on_delivery=own)
            except (KafkaException, BufferError) as error:
                self._refuse(written, error, topic)
        self._start_polling()

    def write_letters(self, topic: str, letters: Sequence[DeadLetter], written: Written) -> None:
        """The same for dead letters. They have no origins."""
        for letter in letters:
            headers: Headers = list(letter.headers)
            try:
                self._producer.produce(topic, letter.value, letter.key, headers=headers, on_delivery=written.delivered)
            except (KafkaException, BufferError) as error:
                self._refuse(written, error, topic)
        self._start_polling()

    def _refuse(self, written: Written, error: KafkaException | BufferError, topic: str) -> None:
        if isinstance(error, KafkaException):
            self._look_at(error.args[0])
        written.refused(error, topic)

    def _look_at(self, error: KafkaError) -> None:
        if is_over(error):
            self._broken = self._broken or error

    def _replace(self, broken: KafkaError) -> None:
        """The senders of what the old one has are told that it may be written."""
        _log.warning("the producer can do nothing any more, and is replaced: %s", broken.str())
        old = self._producer
        try:
            self._producer = self._make()
        except EnrichError as error:
            _log.error("there is no new producer: %s", error)
            return
        discard(old)
        self._broken = None

    def _start_polling(self) -> None:
        if not self._is_polling:
            self._is_polling = True
            self._loop.call_soon(self._poll)

    def _poll(self) -> None:
        if (error := serve(self._producer, 0)) is not None:
            self._look_at(error)
        if self._broken is not None:
            self._replace(self._broken)
        if len(self._producer):
            self._loop.call_later(_POLL_S, self._poll)
        else:
            self._is_polling = False
