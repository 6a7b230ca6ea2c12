"""Writes records in transactions, with a producer that fences the previous one of its transactional id."""

import contextlib
import time
from array import array
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Message, Producer, TopicPartition

from enrich.base.errors import BadRecord, EnrichError, Fenced, Retryable
from enrich.kafka.clients.errors import kafka_errors, mapped
from enrich.kafka.clients.making import Connection, new_producer
from enrich.kafka.writing.dead_letters import HeaderList

_ABORT_S = 5.0
_DEFAULTS = {
    "queue.buffering.max.kbytes": 65536,
    "batch.size": 1_000_000,
    # When a group's coordinator comes back, librdkafka may sleep for minutes, whatever the time-out, until a broker's
    # state changes. Asking for metadata changes one. See docs/adr/0066.
    "topic.metadata.refresh.interval.ms": 2_000,
}
_WITHIN = ("delivery.timeout.ms", "message.timeout.ms", "socket.timeout.ms")
"""Time-outs that the client refuses if they are longer than the transaction's."""

DatedRecord = tuple[bytes, bytes | None, Any, int]
"""Key, value, headers (a list of pairs) and time in milliseconds; 0: now."""


@dataclass(frozen=True, slots=True)
class Span:
    """The offsets of one transaction's records in a partition."""

    first: int
    last: int
    records: int

    @property
    def is_alone(self) -> bool:
        """No other producer wrote in between."""
        return self.last - self.first + 1 == self.records


class TransactionalProducer:
    """The only producer of its `transactional_id` that can write, until the next one is started.

    After a Retryable error the next transaction may be tried: it first ends the previous one, if that is still open
    because brokers were unreachable. After any other error the producer is unusable: the next producer aborts what it
    had begun, at the latest. If a commit raised, only the topic shows whether it took place.
    """

    def __init__(
        self,
        connection: Connection,
        transactional_id: str,
        *,
        deadline_s: float = 30.0,
        timeout_s: float = 60.0,
        headers: Sequence[tuple[str, bytes]] = (),
    ) -> None:
        """`timeout_s`: when the brokers abort a transaction that its producer does not end. `headers`: of every
        record."""
        self._headers: list[tuple[str, str | bytes | None]] = [*headers]
        self._connection = connection
        self._id = transactional_id
        self._timeout_s = timeout_s
        self._producer = self._new_client()
        self._must_start = False
        """Before the next transaction: the client is a new one."""
        self._where = f"transactional.id {transactional_id}"
        self._deadline_s = deadline_s
        self._failure: EnrichError | None = None
        self._is_open = False
        """Neither commit nor abort of the last transaction was confirmed."""
        self._offsets: defaultdict[int, array[int]] = defaultdict(partial(array, "q"))

    @property
    def client(self) -> Producer:
        """For who queues records without being told of each."""
        return self._producer

    def start(self, deadline_s: float | None = None) -> None:
        """Returns when every other producer of this id is fenced, and what it had not committed is aborted."""
        self._repeated(self._producer.init_transactions, deadline_s)

    @contextmanager
    def transaction(self) -> Iterator[dict[int, Span]]:
        """Commits at the end of the block. Afterwards the mapping has the offsets of its records, by partition.

        Raises Fenced when another producer of this id was started.
        """
        spans: dict[int, Span] = {}
        with kafka_errors(self._where):
            if self._is_open:
                self._end()
            if self._must_start:
                self._producer.init_transactions(self._deadline_s)
                self._must_start = False
            self._producer.poll(0)  # what is still told of the last transaction says nothing of this one
            self._offsets.clear()
            self._failure = None
            self._producer.begin_transaction()
        try:
            yield spans
            self._commit()
            for partition, offsets in self._offsets.items():
                spans[partition] = Span(min(offsets), max(offsets), len(offsets))
        except BaseException:
            self._abort()
            raise

    def produce(
        self, topic: str, keys: Sequence[bytes], values: Sequence[bytes | None], headers: HeaderList = ()
    ) -> None:
        """Queues a record for each key, all with these headers. Keys of one call must differ: if the queue is full, the
        order may change."""
        if headers or self._headers:
            given = [*headers, *self._headers]
            dated = ((key, value, given, 0) for key, value in zip(keys, values, strict=True))
            self._queue_each(topic, dated, **self._of_each)
            return
        records = [{"key": key, "value": value} for key, value in zip(keys, values, strict=True)]
        self._queue(topic, records, **self._of_each)

    @property
    def _of_each(self) -> Mapping[str, Any]:
        """What the client is given with each record, so that spans have it."""
        return {"on_delivery": self._on_delivery}

    def produce_dated(self, topic: str, records: Iterable[DatedRecord]) -> None:
        """Queues records with headers and times, in this order. Spans do not have them: one that is not delivered makes
        the commit fail."""
        own = self._headers
        dated = (
            ((key, value, [*headers, *own], time_ms) for key, value, headers, time_ms in records) if own else records
        )
        self._queue_each(topic, dated)

    def _queue_each(self, topic: str, records: Iterable[DatedRecord], **options: Any) -> None:
        # The client takes no headers in batches. By `is_queued` a sixth more of processor time (measured).
        produce, poll = self._producer.produce, self._producer.poll
        with self.errors_of(f"topic {topic}"):
            for key, value, headers, time_ms in records:
                while True:
                    try:
                        produce(topic, value, key, headers=headers, timestamp=time_ms, **options)
                        break
                    except BufferError:  # the queue is full
                        poll(0.05)
                        self._raise_failure()
        self._serve(0)

    def _queue(self, topic: str, records: list[dict[str, Any]], **options: Any) -> None:
        waiting = records
        # The client marks the records that it refuses.
        while waiting:
            with self.errors_of(f"topic {topic}"):
                self._producer.produce_batch(topic, waiting, **options)
                refused = [message for message in waiting if "_error" in message]
                for message in refused:
                    error = message.pop("_error")
                    if isinstance(error, KafkaError) and error.code() != KafkaError._QUEUE_FULL:
                        raise KafkaException(error)
            waiting = refused
            self._serve(0.05 if refused else 0)

    @contextmanager
    def errors_of(self, where: str) -> Iterator[None]:
        """For what queues records, also for who does it by the client itself."""
        with kafka_errors(where):
            try:
                yield
            except KafkaException as exception:
                if exception.args[0].code() not in (KafkaError._STATE, KafkaError._FATAL):
                    raise
                # The transaction has failed meanwhile. Often the client has told why, and nobody has listened yet.
                self._producer.poll(0)
                self._raise_failure()
                if exception.args[0].code() == KafkaError._FATAL:
                    raise
                raise Retryable("Kafka: the transaction has failed", where=self._where) from exception

    def send_offsets(self, offsets: Sequence[TopicPartition], group: Any) -> None:
        """Commits a consumer group's offsets with the transaction. `group`: the metadata of a consumer of the group."""
        self._repeated(lambda seconds: self._producer.send_offsets_to_transaction(list(offsets), group, seconds))

    def settle(self) -> None:
        """Returns when every reader can see what was committed. This producer cannot write any more.

        A commit returns before its markers are in the topics. The next start of the id waits for them.
        """
        another = TransactionalProducer(self._connection, self._id, deadline_s=self._deadline_s)
        with contextlib.closing(another):
            another.start()

    @property
    def is_open(self) -> bool:
        """Whether it is unknown how the last transaction ended: if its commit had begun, only its topics show it."""
        return self._is_open

    def close(self) -> None:
        """Drops what was not committed."""
        self._producer.purge()
        with contextlib.suppress(KafkaException):  # every call of a fenced producer raises
            self._producer.poll(0)

    def _commit(self) -> None:
        self._repeated(self._producer.commit_transaction)
        self._serve(0)

    def _abort(self) -> None:
        # So that readers need not wait for the transaction's time-out. If it fails, the next transaction or the next
        # producer's start aborts it.
        try:
            self._producer.abort_transaction(_ABORT_S)
        except KafkaException:
            self._producer.purge()
            self._is_open = True

    def _end(self) -> None:
        """Repeats the call that was not confirmed, since the client accepts no other: the commit, if that has begun."""
        try:
            try:
                self._producer.abort_transaction(self._deadline_s)
            except KafkaException as exception:
                if exception.args[0].code() not in (KafkaError._CONFLICT, KafkaError._STATE):
                    raise
                self._end_commit()
        except KafkaException as exception:
            if exception.args[0].code() != KafkaError.INVALID_TXN_STATE:
                raise
            # The coordinator has heard nothing of the transaction, and knows no newer producer of this id: then it
            # would have said so. This client takes its answer for fatal.
            self._producer, self._must_start = self._new_client(), True
        self._is_open = False

    def _end_commit(self) -> None:
        try:
            self._producer.commit_transaction(self._deadline_s)
        except KafkaException as exception:  # its records were purged: see `_abort`
            if not exception.args[0].txn_requires_abort():
                raise
            self._producer.abort_transaction(self._deadline_s)

    def _repeated(self, call: Callable[[float], object], deadline_s: float | None = None) -> None:
        """Repeats `call`, which gets its time-out in seconds, while its error is retriable, up to the deadline."""
        seconds = self._deadline_s if deadline_s is None else deadline_s
        end = time.monotonic() + seconds
        while True:
            try:
                call(seconds)
            except KafkaException as exception:
                error = exception.args[0]
                self._raise_failure()
                if error.retriable() and time.monotonic() < end:
                    continue
                translated = mapped(error, self._where)
                if isinstance(translated, Fenced):
                    raise Fenced(
                        "another instance took over",
                        where=self._where,
                        next_step="run one instance only, or let this one wait",
                    ) from exception
                if error.txn_requires_abort() and not isinstance(translated, BadRecord):
                    raise Retryable(translated.what, where=self._where) from exception
                raise translated from exception
            else:
                return

    def _new_client(self) -> Producer:
        timeout_ms = round(self._timeout_s * 1000)
        own: dict[str, Any] = {"transactional.id": self._id, "transaction.timeout.ms": timeout_ms}
        # Users give them to all producers. Here nobody waits longer than the brokers do.
        own |= {name: min(int(str(given)), timeout_ms) for name, given in self._connection.items() if name in _WITHIN}
        if "linger.ms" in self._connection:
            own["linger.ms"] = min(int(str(self._connection["linger.ms"])), timeout_ms // 2)
        defaults = {name: value for name, value in _DEFAULTS.items() if name not in self._connection}
        return new_producer(self._connection, **defaults, **own)

    def _on_delivery(self, error: KafkaError | None, message: Message) -> None:
        # Called for each record: do here only what cannot be done once per transaction.
        if error is None:
            self._offsets[message.partition() or 0].append(message.offset() or 0)
        # Purged records are the consequence of a failure, not its cause.
        elif self._failure is None and error.code() not in (KafkaError._PURGE_QUEUE, KafkaError._PURGE_INFLIGHT):
            self._failure = mapped(error, f"topic {message.topic()}")

    def _serve(self, seconds: float) -> None:
        """Calls delivery reports, and raises what they say."""
        with kafka_errors(self._where):
            self._producer.poll(seconds)
        self._raise_failure()

    def _raise_failure(self) -> None:
        if self._failure is not None:
            raise self._failure
