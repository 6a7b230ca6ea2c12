"""Writes reports to the topic of tallies, in the background, and says when they are acknowledged.

The stream never waits for long: while the topic is away, what is to be said is added up in memory, within bounds, and
written once it is back. A node may wait for an acknowledgement, for a moment, while nothing is wrong.
"""

import logging
import threading
import time
import uuid
import weakref
from collections.abc import Callable, Sequence
from datetime import timedelta
from functools import partial

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from enrich.base.backoff import Backoff
from enrich.base.errors import EnrichError
from enrich.kafka import Connection, Topics, new_producer
from enrich.kafka.clients.ending import discard, is_over, serve
from enrich.kafka.clients.errors import MISSING_TOPIC, TOO_LARGE, mapped
from enrich.tally.encoding import MOST_BYTES, encoded, key_of
from enrich.tally.gathering import Gathered
from enrich.tally.origins import Read
from enrich.tally.report import Node, NodeKind, Report, Tally

_log = logging.getLogger("enrich.tally")

KEPT = timedelta(days=2)
TOPIC_SETTINGS = {
    "cleanup.policy": "delete",
    "retention.ms": str(KEPT // timedelta(milliseconds=1)),
    # The clocks of nodes differ: readers look for a time by when the brokers wrote.
    "message.timestamp.type": "LogAppendTime",
}
PARTITIONS = 4
PATIENCE_S = 1.0
"""For how long a node waits for an acknowledgement before it goes on without."""
_TURN_S = 0.1
_ALIVE_EVERY_S = 10.0
"""A node that has nothing to say says so: silence is something else than rest."""
_MOST_BYTES = 32 * 2**20
"""Of what a node has not said yet. Beyond, it is given up: its minutes are unknown then, which readers see from the
hole in what it has read."""
_LEAST_RECORD = 10_000
_CLOSE_S = 4.0
"""For how long a program that ends waits: what it has not said then is never said. Programs have to stop in 26 s."""
_LAST_TURN_S = 0.5
_TIMEOUT_MS = 10_000


def now_ms() -> int:
    return time.time_ns() // 10**6


class Reporter:
    """For one node, and one thread that reports. What it says has ids of its own: no other run ever says them again."""

    def __init__(self, node: Node, writer: "TallyWriter", clock_ms: Callable[[], int]) -> None:
        self._node = node
        self._writer = writer
        self._clock_ms = clock_ms
        self._id = uuid.uuid4().hex
        self._sequence = 0
        self._gathered = Gathered()
        self._under_way: Report | None = None
        self._missing = 0
        """Acknowledgements of records of the report under way."""
        self._is_refused = False
        """Some record of it was refused."""
        self._due_s = 0.0
        """When it is tried again."""
        self._said_s = 0.0
        self._backoff = Backoff(0.1, 5.0)

    def report(self, tallies: Sequence[Tally], reads: Sequence[Read] = ()) -> None:
        """Returns at once. It is said together with what could not be said before."""
        if not tallies and not reads:
            return
        with self._writer.lock:
            self._gathered.add(tallies, reads)
        self.push()
        with self._writer.lock:
            if self._gathered.size > _MOST_BYTES:  # it is not under way: something else is, or the topic is not there
                self._gathered = Gathered()
                self._writer.gave_up(self._node)

    def is_said(self, patience_s: float = PATIENCE_S) -> bool:
        """Waits until all that was reported is acknowledged, unless something is wrong. False: it is not yet."""
        end = time.monotonic() + patience_s
        with self._writer.lock:
            while self._under_way is not None or self._gathered:
                left_s = end - time.monotonic()
                if self._writer.trouble is not None:
                    return False
                if left_s <= 0:
                    self._writer.note(f"the brokers did not acknowledge a tally within {patience_s:g} s")
                    return False
                self._writer.changed.wait(left_s)
        return True

    # Called by the writer's thread as well.

    def push(self) -> None:
        """Begins to write what is to be said, unless something is under way or the topic is not there."""
        with self._writer.lock:
            now_s = time.monotonic()
            if not self._writer.is_ready or self._missing or now_s < self._due_s:
                return
            if self._under_way is None:
                if not self._gathered and now_s < self._said_s + _ALIVE_EVERY_S:
                    return
                tallies, reads = self._gathered.taken()
                self._under_way = Report(self._node, self._id, self._sequence, self._clock_ms(), tallies, reads)
                self._sequence += 1
            report = self._under_way
            records = encoded(report, self._writer.most)
            self._missing, self._is_refused = len(records), False
            key = key_of(report)
        for record in records:
            self._writer.produce(key, record, partial(self._reported, report))

    def _reported(self, report: Report, error: KafkaError | None, _: Message | None) -> None:
        with self._writer.lock:
            if report is not self._under_way:
                return
            self._missing -= 1
            if error is not None:
                self._is_refused = True
                self._writer.refused(error)
            if self._missing:
                return
            if self._is_refused:  # all of it is said again: that changes nothing for who has heard a part
                self._due_s = time.monotonic() + self._backoff.next_s()
                return
            self._under_way, self._said_s = None, time.monotonic()
            self._backoff.reset()
            self._writer.accepted()

    def hurry(self) -> None:
        """No pause is due any more: there is little time."""
        self._due_s = 0.0
        self._backoff.reset()

    @property
    def is_idle(self) -> bool:
        return self._under_way is None and not self._gathered


class TallyWriter:
    """One for all nodes of a process: a producer, and a thread that waits for its acknowledgements."""

    def __init__(
        self,
        connection: Connection,
        pipeline: str,
        topic: str,
        topics: Callable[[], Topics],
        clock_ms: Callable[[], int] = now_ms,
    ) -> None:
        self.lock = threading.RLock()
        self.changed = threading.Condition(self.lock)
        self.trouble: str | None = None
        """Why tallies cannot be written now."""
        self.given_up = 0
        """How often what a node had to say was given up."""
        self.is_ready = False
        """Whether the topic is there."""
        self._is_broken = False
        """Whether the producer can do nothing any more."""
        self.most = MOST_BYTES
        self._pipeline = pipeline
        self._topic = topic
        self._topics = topics
        self._clock_ms = clock_ms
        self._connection = connection
        self._producer: Producer | None = None
        self._reporters: list[Reporter] = []
        self._stopping = threading.Event()
        self._look_s = 0.0
        self._looks = Backoff(0.5, 10.0)
        self._thread = threading.Thread(target=self._run, name="tallies", daemon=True)
        self._thread.start()

    def reporter(self, kind: NodeKind, name: str) -> Reporter:
        reporter = Reporter(Node(self._pipeline, kind, name), self, self._clock_ms)
        with self.lock:
            self._reporters.append(reporter)
        return reporter

    def close(self) -> None:
        """Waits a moment for what is not acknowledged. Also if something is wrong: it may be over soon."""
        end = time.monotonic() + _CLOSE_S
        with self.lock:
            self._look_s = 0.0
            self._looks.reset()
            for one in self._reporters:
                one.hurry()
            while not all(one.is_idle for one in self._reporters) and time.monotonic() < end:
                self.changed.wait(_TURN_S)
        self.stop()
        self._thread.join(max(_LAST_TURN_S, end - time.monotonic()))

    def stop(self) -> None:
        """Its thread ends soon. What is not acknowledged is not written any more."""
        self._stopping.set()

    # Called by reporters.

    def produce(self, key: bytes, value: bytes, reported: Callable[[KafkaError | None, Message | None], None]) -> None:
        producer = self._producer
        if producer is None:  # it is just being replaced
            reported(KafkaError(KafkaError._PURGE_QUEUE), None)
            return
        try:
            producer.produce(self._topic, value, key, on_delivery=reported)
        except BufferError:
            reported(KafkaError(KafkaError._QUEUE_FULL), None)
        except KafkaException as exception:
            reported(exception.args[0], None)

    def note(self, trouble: str) -> None:
        if self.trouble is None:
            _log.warning("tallies are not written: %s", trouble, extra={"topic": self._topic})
        self.trouble = trouble
        self.changed.notify_all()

    def refused(self, error: KafkaError) -> None:
        if error.code() in TOO_LARGE and self.most > _LEAST_RECORD:
            self.most = max(self.most // 2, _LEAST_RECORD)
            return
        if error.code() in MISSING_TOPIC:
            self.is_ready = False
        self._look_at(error)
        self.note(str(mapped(error, f"topic {self._topic}")))

    def _look_at(self, error: KafkaError) -> None:
        if is_over(error):
            with self.lock:
                self._is_broken, self.is_ready = True, False

    def accepted(self) -> None:
        if self.trouble is not None:
            _log.info("tallies are written again", extra={"topic": self._topic})
        self.trouble = None
        self.changed.notify_all()

    def gave_up(self, node: Node) -> None:
        self.given_up += 1
        _log.error("tallies were given up: too much waits for the topic", extra={"node": node.name})

    # The thread.

    def _run(self) -> None:
        while not self._stopping.is_set():
            if self._is_broken:
                self._drop_producer()
            if not self.is_ready:
                self._look()
            if self._producer is None:
                self._stopping.wait(_TURN_S)
            elif (error := serve(self._producer, _TURN_S)) is not None:
                self._look_at(error)
            with self.lock:
                reporters = [*self._reporters]
            for reporter in reporters:
                reporter.push()
        self._drop_producer()

    def _drop_producer(self) -> None:
        """What it has is refused, and said again by the next one."""
        producer, self._producer = self._producer, None
        if producer is not None:
            discard(producer)
        self._is_broken = False

    def _look(self) -> None:
        """Makes the topic if it is missing."""
        if time.monotonic() < self._look_s:
            return
        try:
            self._topics().ensure(self._topic, partitions=PARTITIONS, config=TOPIC_SETTINGS)
            if self._producer is None:
                own = {"message.timeout.ms": _TIMEOUT_MS, "linger.ms": 0, "compression.type": "zstd"}
                self._producer = new_producer(self._connection, **own)
        except EnrichError as error:
            with self.lock:
                self.note(str(error))
            self._look_s = time.monotonic() + self._looks.next_s()
            return
        self._looks.reset()
        with self.lock:
            self.is_ready = True


class Tallies:
    """Of a program. Opens no connection before a node begins, and none for a pipeline without tallies."""

    def __init__(self, pipeline: str, topic: str | None, connection: Connection, topics: Callable[[], Topics]) -> None:
        self._pipeline = pipeline
        self._topic = topic
        self._connection = connection
        self._topics = topics
        self._writer: TallyWriter | None = None
        self._lock = threading.Lock()

    def reporter(self, kind: NodeKind, name: str) -> Reporter | None:
        """One for each node, for as long as the program lives. None if the pipeline has no tallies."""
        if self._topic is None:
            return None
        with self._lock:
            if self._writer is None:
                self._writer = TallyWriter(self._connection, self._pipeline, self._topic, self._topics)
                # Programs end with their process. Whoever runs routes in another way leaves no thread behind.
                weakref.finalize(self, self._writer.stop)
        return self._writer.reporter(kind, name)

    @property
    def warnings(self) -> list[str]:
        """What is wrong with them, for people."""
        writer = self._writer
        if writer is None:
            return []
        trouble = [] if writer.trouble is None else [f"tallies are not written: {writer.trouble}"]
        lost = f"tallies were given up {writer.given_up} times: too much waited for the topic {self._topic}"
        return [*trouble, *([lost] if writer.given_up else [])]

    def close(self) -> None:
        """Waits a moment for what is not acknowledged."""
        if self._writer is not None:
            self._writer.close()
