"""Which routes are on hold: nothing of them is sent until a person resumes them, whichever instance would send it.

A compacted topic holds it, so that every instance hears of it, and it outlives them all.
"""

import json
import logging
import threading
import time
from collections.abc import Collection, Mapping
from contextlib import closing
from dataclasses import asdict, dataclass

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, Message, TopicPartition

from enrich.base.errors import EnrichError, Unreachable
from enrich.config import holds_topic
from enrich.kafka import COMPACTED, DeliveringProducer, Topics, kafka_errors, new_store_consumer
from enrich.kafka.clients.errors import MISSING_TOPIC
from enrich.kafka.clients.making import Connection

_log = logging.getLogger("enrich.delivery")

EXPEL, PERSON = "expel", "a person"
"""Who may hold a route."""

_POLL_S = 0.5
_DEADLINE_S = 10.0
_AGAIN_S = 2.0
_CLOSE_S = 3.0
"""For how long a program that ends waits until the topic has its holds: the next one sends on without them, and makes
dead letters of the first twenty requests."""
_GONE = (*MISSING_TOPIC, KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE)


@dataclass(frozen=True, slots=True)
class Hold:
    reason: str
    since_ms: int
    by: str
    """`EXPEL` or `PERSON`."""


def make_holds_topic(topics: Topics, pipeline: str) -> None:
    topics.ensure(holds_topic(pipeline), partitions=1, config=COMPACTED)


def change(connection: Connection, pipeline: str, route: str, hold: Hold | None) -> None:
    """Holds the route, or resumes it. Every instance knows within a second or two."""
    value = None if hold is None else json.dumps(asdict(hold)).encode()
    with DeliveringProducer(connection) as producer:
        producer.produce(holds_topic(pipeline), _key(route), value)


def read(connection: Connection, pipeline: str) -> Mapping[str, Hold]:
    """The routes that are on hold now."""
    with closing(_Reader(connection, pipeline)) as reader:
        reader.read_to_end()
        return dict(reader.holds)


class Holds:
    """What is on hold, kept current by a thread of its own, for all routes of a program."""

    def __init__(self, connection: Connection, pipeline: str) -> None:
        self._connection = connection
        self._pipeline = pipeline
        self._holds: Mapping[str, Hold] = {}
        """As the topic says."""
        self._own: dict[str, Hold] = {}
        """Made here, and not yet heard of from the topic."""
        self._written: set[str] = set()
        """Those of them that the topic has."""
        self._writing: dict[str, threading.Thread] = {}
        self._is_current = threading.Event()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._follow, name="holds", daemon=True)
        self._started = threading.Lock()

    def of(self, route: str) -> Hold | None:
        """Waits until what is in the topic is known. Raises Unreachable."""
        with self._started:
            if not self._thread.is_alive() and not self._stopping.is_set():
                self._thread.start()
        if not self._is_current.wait(_DEADLINE_S):
            raise Unreachable(
                "it is not known whether the route is on hold", where=f"topic {holds_topic(self._pipeline)}"
            )
        return self._own.get(route) or self._holds.get(route)

    def hold(self, route: str, reason: str) -> None:
        """Holds it here at once, and elsewhere once the topic has it: that is tried until it does."""
        hold = Hold(reason, time.time_ns() // 10**6, EXPEL)
        self._own[route] = hold
        self._writing[route] = thread = threading.Thread(
            target=self._write, args=[route, hold], name="hold", daemon=True
        )
        thread.start()

    def close(self) -> None:
        """Once nobody holds a route any more."""
        end = time.monotonic() + _CLOSE_S
        for thread in self._writing.values():
            thread.join(max(0.0, end - time.monotonic()))
        self._stopping.set()

    def _write(self, route: str, hold: Hold) -> None:
        while not self._stopping.is_set():
            try:
                change(self._connection, self._pipeline, route, hold)
            except EnrichError as error:
                _log.warning("a hold cannot be written to its topic yet: %s", error, extra={"route": route})
                self._stopping.wait(_AGAIN_S)
            else:
                self._written.add(route)
                return

    def _follow(self) -> None:
        while not self._stopping.is_set():
            try:
                with closing(_Reader(self._connection, self._pipeline)) as reader:
                    heard = {*self._written}  # before it is read: what was written by then is in what is read
                    reader.read_to_end()
                    while not self._stopping.is_set():
                        self._take(reader.holds, heard | reader.heard)
                        self._is_current.set()
                        heard.clear()
                        reader.poll(_POLL_S)
            except EnrichError as error:
                _log.warning("which routes are on hold is not known: %s", error)
                self._stopping.wait(_AGAIN_S)

    def _take(self, holds: Mapping[str, Hold], heard: Collection[str]) -> None:
        """One that this process has just made is not forgotten before the topic has it."""
        self._holds = dict(holds)
        for route in heard:
            if route in self._written or (route in self._own and holds.get(route) == self._own[route]):
                self._own.pop(route, None)
                self._written.discard(route)


class _Reader:
    def __init__(self, connection: Connection, pipeline: str) -> None:
        self._topic = holds_topic(pipeline)
        self._consumer: Consumer = new_store_consumer(connection)
        self.holds: dict[str, Hold] = {}
        self.heard: set[str] = set()
        """The routes of which the last poll brought something."""
        self._is_at_end = False

    def read_to_end(self) -> None:
        """Raises Unreachable at a deadline."""
        with kafka_errors(f"topic {self._topic}"):
            self._consumer.assign([TopicPartition(self._topic, 0, OFFSET_BEGINNING)])
        end = time.monotonic() + _DEADLINE_S
        while not self._is_at_end:
            if time.monotonic() > end:
                raise Unreachable("the topic cannot be read", where=f"topic {self._topic}")
            self.poll(0.2)

    def poll(self, wait_s: float) -> None:
        self.heard.clear()
        with kafka_errors(f"topic {self._topic}"):
            messages = self._consumer.consume(100, wait_s) if not self._is_at_end else _first(self._consumer, wait_s)
        for message in messages:
            error = message.error()
            if error is None:
                self._take(message.key(), message.value())
            elif error.code() == KafkaError._PARTITION_EOF:
                self._is_at_end = True
            elif error.code() in _GONE:
                raise Unreachable("it was deleted or recreated, and is read anew", where=f"topic {self._topic}")

    def close(self) -> None:
        self._consumer.close()

    def _take(self, key: bytes | str | None, value: bytes | str | None) -> None:
        name = (key.decode(errors="replace") if isinstance(key, bytes) else key or "").removeprefix("expel/")
        self.heard.add(name)
        if value is None:
            self.holds.pop(name, None)
            return
        try:
            content = json.loads(value)
            self.holds[name] = Hold(str(content["reason"]), int(content["since_ms"]), str(content["by"]))
        except (ValueError, KeyError, TypeError, OverflowError, RecursionError):  # anybody may write there
            _log.warning("a record of the holds cannot be read", extra={"topic": self._topic, "route": name})


def _first(consumer: Consumer, wait_s: float) -> list[Message]:
    """Returns as soon as there is one, and not when the time is over."""
    message = consumer.poll(wait_s)
    return [] if message is None else [message, *consumer.consume(100, 0)]


def _key(route: str) -> bytes:
    return f"expel/{route}".encode()
