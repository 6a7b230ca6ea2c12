"""A producer that cannot lose a record silently: the first failed delivery is raised by the next call."""

import time
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any

from confluent_kafka import KafkaError, Message, Producer

from enrich.base.errors import EnrichError, Unreachable
from enrich.kafka.clients.ending import discard, serve
from enrich.kafka.clients.errors import kafka_errors, mapped
from enrich.kafka.clients.making import Connection, new_producer
from enrich.kafka.writing.queueing import is_queued

Headers = Mapping[str, bytes] | Sequence[tuple[str, bytes | None]]
"""A sequence if a name may occur twice."""


class DeliveringProducer:
    """Produces in the background; `flush` returns when all in-sync replicas have acknowledged every record.

    After a failed delivery, or an error that the client cannot get over (ClientOver), each call raises that first
    failure. Records that were acknowledged before it are safe; nothing after it may be taken as written.
    """

    def __init__(self, connection: Connection, **extra: Any) -> None:
        self._producer: Producer = new_producer(connection, **extra)
        self._failure: EnrichError | None = None

    def produce(
        self,
        topic: str,
        key: bytes | None,
        value: bytes | None,
        *,
        headers: Headers | None = None,
        timestamp_ms: int | None = None,
        partition: int | None = None,
    ) -> None:
        """Queues a record. Waits while the queue is full. Raises the first failure of earlier records."""
        self._raise_failure()
        options: dict[str, Any] = {}
        if headers:
            options["headers"] = list(headers.items() if isinstance(headers, Mapping) else headers)
        if timestamp_ms is not None:
            options["timestamp"] = timestamp_ms
        if partition is not None:
            options["partition"] = partition
        with kafka_errors(f"topic {topic}"):
            while not is_queued(self._producer, topic, value, key, on_delivery=self._on_delivery, **options):
                self._raise_failure()
            self._producer.poll(0)

    def flush(self, deadline_s: float = 30.0) -> None:
        """Waits until all records are acknowledged. Raises the first failure, or Unreachable at the deadline."""
        end = time.monotonic() + deadline_s
        while len(self._producer) > 0:
            self._raise_failure()
            if time.monotonic() >= end:
                raise Unreachable(
                    f"{len(self._producer)} records were not acknowledged within {deadline_s:g} s",
                    next_step="check that the brokers run; produce the records again, they may not be written",
                )
            self._serve(0.05)
        self._raise_failure()

    def close(self, deadline_s: float = 30.0) -> None:
        """Flushes. Afterwards nothing is left in the background, even if it raised."""
        try:
            self.flush(deadline_s)
        finally:
            discard(self._producer)

    def __enter__(self) -> "DeliveringProducer":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if error is None:
            self.close()
        else:  # leaving because of an error: drop the queued records instead of waiting for them
            discard(self._producer)

    def _serve(self, seconds: float) -> None:
        error = serve(self._producer, seconds)
        if error is not None and self._failure is None:
            self._failure = mapped(error)

    def _on_delivery(self, error: KafkaError | None, message: Message) -> None:
        if error is not None and self._failure is None:
            self._failure = mapped(error, f"topic {message.topic()}, key {_shown(message.key())}")

    def _raise_failure(self) -> None:
        if self._failure is not None:
            raise self._failure


def _shown(key: str | bytes | None) -> str:
    if key is None:
        return "null"
    text = key if isinstance(key, str) else key.decode("utf-8", "backslashreplace")
    return text if len(text) <= 60 else f"{text[:60]}..."
