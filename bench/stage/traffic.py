"""The two ends of a stage under a steady load, each a process of its own, beside the broker.

python -m bench.stage.traffic produce    first line of standard input: brokers, topic, keys; then a rate a line
python -m bench.stage.traffic consume    first line: brokers, topic, partitions; then seconds to measure a line,
                                         answered by one line of what was seen in them
"""

import json
import queue
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from confluent_kafka import Consumer, TopicPartition

from bench.kit.metadata import key_of
from bench.kit.processes import Process, started, tell
from bench.stage.contenders import ROW
from bench.stage.events import PARTITIONS, Row, row_of_key
from enrich.kafka import new_producer, new_store_consumer

_TICK_S = 0.002
_PATIENCE_S = 60
_DIFFERENT = 10_000
_BYTES = 200
_SENT = b'"sent":'
_DIGITS = 16
_CHECKED = 97
"""Every so many events are looked into: a Python that parsed all of them would take the cores from the stage."""


@dataclass(frozen=True)
class Seen:
    """What a consumer saw in a window of time; milliseconds from the producer's clock to its own."""

    events: int
    per_second: float
    p50_ms: float
    p95_ms: float
    p99_ms: float
    longest_pause_s: float = 0.0
    """In which nothing came."""

    def __str__(self) -> str:
        return f"{self.per_second:,.0f} events/s, p50 {self.p50_ms:.0f} p95 {self.p95_ms:.0f} p99 {self.p99_ms:.0f} ms"


class Traffic:
    """A producer and a consumer; made by `traffic`."""

    def __init__(self, producer: Process, consumer: Process) -> None:
        self._producer = producer
        self._consumer = consumer

    def flow(self, rate: int) -> None:
        """From now on so many events a second."""
        tell(self._producer, rate)

    def seen(self, seconds: float) -> Seen:
        """What comes out in the seconds to come. Raises RuntimeError when a row was not the right one."""
        tell(self._consumer, seconds)
        line = "" if self._consumer.stdout is None else self._consumer.stdout.readline()
        if not line:
            raise RuntimeError("the consumer of the output failed")
        return Seen(**json.loads(line))


@contextmanager
def traffic(bootstrap_servers: str, source: str, output: str, keys: int, *, looked_up: bool) -> Iterator[Traffic]:
    """`looked_up`: whether the joined rows are those of the table, or the same for all."""
    producer, consumer = started("bench.stage.traffic", "produce"), started("bench.stage.traffic", "consume")
    try:
        tell(producer, [bootstrap_servers, source, keys])
        tell(consumer, [bootstrap_servers, output, looked_up])
        yield Traffic(producer, consumer)
    finally:
        for process in (producer, consumer):
            try:
                process.communicate(timeout=_PATIENCE_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _produce() -> None:
    bootstrap_servers, topic, keys = json.loads(sys.stdin.readline())
    producer = new_producer({"bootstrap.servers": bootstrap_servers}, **{"linger.ms": 1, "batch.size": 100_000})
    heads, tails = _templates(keys)
    said = _said()
    rate, number, due = 0, 0, 0.0
    then = time.monotonic()
    while True:
        time.sleep(_TICK_S)
        if not said.empty():
            line = said.get()
            if not line:
                break
            rate = json.loads(line)
        now = time.monotonic()
        due, then = due + (now - then) * rate, now
        count, due = int(due), due - int(due)
        sent = b"%0*d" % (_DIGITS, time.time_ns() // 1000)
        for partition in range(PARTITIONS):
            own = range(number + partition, number + count, PARTITIONS)
            records = [
                {"value": b"".join((heads[i % _DIFFERENT], sent, tails[i % _DIFFERENT])), "key": b"%d" % i} for i in own
            ]
            if records:
                producer.produce_batch(topic, records, partition=partition)
        number += count
        producer.poll(0)
    producer.flush(_PATIENCE_S)


def _said() -> "queue.Queue[str]":
    """The lines of standard input as they come; an empty one at its end."""
    lines: queue.Queue[str] = queue.Queue()

    def read() -> None:
        for line in sys.stdin:
            lines.put(line)
        lines.put("")

    threading.Thread(target=read, daemon=True).start()
    return lines


def _templates(keys: int) -> tuple[list[bytes], list[bytes]]:
    """Events without the time at which they are sent."""
    random = np.random.default_rng(1)
    heads = [b'{"key_0":"%s",%s' % (key_of(int(n)).encode(), _SENT) for n in random.integers(0, keys, _DIFFERENT)]
    tails = [b',"note":"' + b"x" * (_BYTES - _DIGITS - 11 - len(head)) + b'"}' for head in heads]
    return heads, tails


def _consume() -> None:
    bootstrap_servers, topic, looked_up = json.loads(sys.stdin.readline())
    consumer = new_store_consumer({"bootstrap.servers": bootstrap_servers})
    consumer.assign([TopicPartition(topic, partition, 0) for partition in range(PARTITIONS)])
    said = _said()
    window: _Window | None = None
    while True:
        if not said.empty():
            line = said.get()
            if not line:
                break
            window = _Window(float(json.loads(line)), looked_up=looked_up)
        _take(consumer, window)
        if window is not None and window.is_over():
            sys.stdout.write(json.dumps(window.seen()) + "\n")
            sys.stdout.flush()
            window = None
    consumer.close()


def _take(consumer: Consumer, window: "_Window | None") -> None:
    messages = consumer.consume(2_000, _TICK_S)
    if window is None:
        return
    now = time.time_ns() // 1000
    for message in messages:
        if message.error() is None:
            window.add(message.value() or b"", now)


class _Window:
    """The events of some seconds."""

    def __init__(self, seconds: float, *, looked_up: bool) -> None:
        self._seconds = seconds
        self._began = time.monotonic()
        self._expected = row_of_key if looked_up else _same_for_all
        self._lags: list[int] = []
        self._last_us = self._pause_us = 0

    def add(self, value: bytes, now_us: int) -> None:
        at = value.index(_SENT) + len(_SENT)
        self._lags.append(now_us - int(value[at : at + _DIGITS]))
        self._pause_us = max(self._pause_us, now_us - (self._last_us or now_us))
        self._last_us = now_us
        if len(self._lags) % _CHECKED == 0:
            event = json.loads(value)
            if event.get("user") != self._expected(event["key_0"]):
                raise RuntimeError(f"{event['key_0']} was joined with {event.get('user')}")

    def is_over(self) -> bool:
        return time.monotonic() - self._began >= self._seconds

    def seen(self) -> dict[str, Any]:
        count, lasted = len(self._lags), time.monotonic() - self._began
        marks = statistics.quantiles(self._lags, n=100) if count > 1 else [float("inf")] * 99
        p50, p95, p99 = (marks[i - 1] / 1000 for i in (50, 95, 99))
        seen = Seen(count, count / lasted, p50, p95, p99, self._pause_us / 1e6)
        return asdict(seen)


def _same_for_all(key: str) -> Row:  # noqa: ARG001 - that is what it is about
    return ROW


if __name__ == "__main__":
    {"produce": _produce, "consume": _consume}[sys.argv[1]]()
