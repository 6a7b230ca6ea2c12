"""How late events leave the last node of a way, second by second, from its tallies."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from confluent_kafka import TopicPartition

from enrich.base.errors import BadRecord
from enrich.kafka import Connection, Topics, new_store_consumer
from enrich.tally import Histogram, Node, decoded


@dataclass(frozen=True)
class Left:
    at_ms: int
    """When it was heard of here: all of a run goes by one clock, whatever time the brokers have."""
    lag: Histogram


class Arrivals:
    """In a thread of its own, from now on."""

    def __init__(self, connection: Connection, topics: Topics, topic: str, node: Node) -> None:
        self._node = node
        self._consumer = new_store_consumer(connection)
        ends = topics.end_offsets(topic)
        self._consumer.assign([TopicPartition(topic, partition, end) for partition, end in ends.items()])
        self._left: list[Left] = []
        self._lock = threading.Lock()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="arrivals", daemon=True)

    @contextmanager
    def watched(self) -> Iterator["Arrivals"]:
        self._thread.start()
        try:
            yield self
        finally:
            self._stopping.set()
            self._thread.join()
            self._consumer.close()

    def between(self, from_ms: int, until_ms: int) -> Histogram:
        """Of all that left then."""
        whole = Histogram()
        with self._lock:
            for each in self._left:
                if from_ms <= each.at_ms < until_ms:
                    whole += each.lag
        return whole

    def _run(self) -> None:
        while not self._stopping.is_set():
            for message in self._consumer.consume(200, 0.2):
                value = message.value()
                if message.error() is not None or value is None:
                    continue
                try:
                    report = decoded(value)
                except BadRecord:
                    continue
                if report.node == self._node:
                    now_ms = time.time_ns() // 10**6
                    self._take(now_ms, [tally.lag.went for tally in report.tallies if not tally.route])

    def _take(self, at_ms: int, lags: list[Histogram]) -> None:
        whole = Histogram()
        for lag in lags:
            whole += lag
        if whole:
            with self._lock:
                self._left.append(Left(at_ms, whole))
