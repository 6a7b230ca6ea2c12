"""Expel in a process of its own: requests a second, events a second over a distance, what a dead route costs others.

The receiver answers at once, or after a round trip, and is a process of its own on the other core.
"""

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import psutil

from bench.harness import Figures, cpu_seconds, say
from enrich.dev import temporary_stack
from enrich.kafka import DeliveringProducer, Topics, new_admin_client

ROUNDS = 3
PARTITIONS = 4
SINGLES = 40_000
EVENTS = 400_000
ROUND_TRIP_S = 0.05
ROUTES = 20
QUIET_S = 8.0
PER_SECOND = 500
"""Of all routes together, while a dead one is beside them."""


def run() -> Figures:
    cores = sorted(os.sched_getaffinity(0))
    with temporary_stack() as addresses, _receiver(cores[-1]) as port:
        for process in psutil.Process().children(recursive=True):
            process.cpu_affinity([cores[-1]])
        bench = _Bench(addresses.bootstrap_servers, port, cores[0])
        singles, batched, cpu_single, cpu_event = [], [], [], []
        for number in range(ROUNDS):
            say(f"round {number + 1}/{ROUNDS}")
            rate, cpu = bench.drained(
                f"single{number}", SINGLES, "/now", {"to": _to(port, "/now", "single"), "parallel": 32}
            )
            singles.append(rate)
            cpu_single.append(cpu)
            batch = {"to": _to(port, "/far", "ndjson"), "parallel": 64, "batch": {"events": 100}}
            rate, cpu = bench.drained(f"batched{number}", EVENTS, "/far", batch)
            batched.append(rate)
            say(f"{singles[-1]:.0f} requests/s, {cpu_single[-1]:.0f} us; {rate:.0f} events/s, {cpu:.1f} us")
            cpu_event.append(cpu)
        quiet = [bench.quiet_round(number) for number in range(ROUNDS)]
        plain = bench.plain()
    return {
        "requests_per_s": statistics.median(singles),
        "cpu_us_per_request": statistics.median(cpu_single),
        "events_per_s": statistics.median(batched),
        "cpu_us_per_event": statistics.median(cpu_event),
        "added_p50_ms": statistics.median(_quantile(each.alone, 0.5) for each in quiet),
        "added_p99_ms": statistics.median(_quantile(each.alone, 0.99) for each in quiet),
        "broker_p50_ms": _quantile(plain, 0.5),
        "broker_p99_ms": _quantile(plain, 0.99),
        "retried_ratio": statistics.median(each.ratio(each.sick) for each in quiet),
        "isolation_ratio": statistics.median(each.ratio(each.beside) for each in quiet),
    }


@dataclass(frozen=True)
class _Quiet:
    """Times of the same load, in ms."""

    alone: Sequence[float]
    sick: Sequence[float]
    """Of all but those that were refused once."""
    beside: Sequence[float]
    """Of those beside a dead route."""

    def ratio(self, times: Sequence[float]) -> float:
        return _quantile(times, 0.95) / _quantile(self.alone, 0.95)


class _Bench:
    def __init__(self, servers: str, port: int, core: int) -> None:
        self._servers = servers
        self._port = port
        self._core = core
        self._topics = Topics(new_admin_client({"bootstrap.servers": servers}))

    def drained(self, name: str, events: int, path: str, route: dict[str, Any]) -> tuple[float, float]:
        """Events a second and processor time of each, in microseconds, from the first tenth of a topic to its end."""
        self._topics.create(name, partitions=PARTITIONS)
        with DeliveringProducer({"bootstrap.servers": self._servers}) as producer:
            for number in range(events):
                producer.produce(name, b"%d" % number, _value(number))
        before = self._seen(path)
        with self._expel(name, {"out": {"topic": name, **route}}) as process:
            began_at, cpu_at, first = 0.0, 0.0, 0
            while (count := self._seen(path) - before) < events:
                if not first and count >= events // 10:
                    began_at, cpu_at, first = time.monotonic(), cpu_seconds([process.pid]), count
                if process.poll() is not None:
                    raise RuntimeError("expel ended")
                time.sleep(0.02)
            seconds, cpu = time.monotonic() - began_at, cpu_seconds([process.pid]) - cpu_at
        return (events - first) / seconds, cpu / (events - first) * 1e6

    def quiet_round(self, number: int) -> _Quiet:
        alone = self.latencies(f"alone{number}-")
        sick = self.latencies(f"sick{number}-", kind="sick")
        return _Quiet(alone, sick, self.latencies(f"beside{number}-", dead=True))

    def latencies(self, name: str, *, dead: bool = False, kind: str = "far") -> list[float]:
        """From the record's time to its receipt less the round trip, in ms, over routes of which one may be dead."""
        names = [f"{name}{number}" for number in range(ROUTES)]
        retried = {"local": {"tries": 1}, "retries": ["1s"]}
        routes: dict[str, dict[str, Any]] = {
            each: {"topic": each, "to": _to(self._port, f"/{each}-{kind}", "ndjson"), "parallel": 8, **retried}
            for each in names
        }
        if dead:
            routes[names[0]]["to"] = _to(self._port, f"/{names[0]}-dead", "ndjson", timeout="1s")
        for each in names:
            self._topics.create(each, partitions=1)
        with (
            self._expel(name, routes) as process,
            self._retrier(name, routes),
            DeliveringProducer({"bootstrap.servers": self._servers}) as producer,
        ):
            for each in names:
                producer.produce(each, None, _value(0))
            producer.flush()
            while not all(self._seen(f"/{each}-{kind}") for each in names[1:]):
                time.sleep(0.1)
            _produce_evenly(producer, names)
            say(f"expel takes {cpu_seconds([process.pid]):.1f} s of processor time so far")
            time.sleep(1)
            return [each for route in names[1:] for each in self._times(f"/{route}-{kind}")]

    def plain(self) -> list[float]:
        """What the broker alone takes: from the records' times to a plain consumer that does nothing with them."""
        names = [f"plain{number}" for number in range(ROUTES)]
        for each in names:
            self._topics.create(each, partitions=1)
        command = [sys.executable, "-m", "bench.edge.plain_consumer", self._servers, str(QUIET_S + 2), *names]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, env={**os.environ, "PYTHONPATH": str(Path.cwd())})
        psutil.Process(process.pid).cpu_affinity([self._core])
        assert process.stdout is not None  # noqa: S101 - a pipe
        process.stdout.readline()  # it reads
        with DeliveringProducer({"bootstrap.servers": self._servers}) as producer:
            _produce_evenly(producer, names)
        found, _ = process.communicate(timeout=60)
        times: list[float] = json.loads(found)
        return times

    def _seen(self, path: str) -> int:
        return int(self._ask("count", path)["events"])

    def _times(self, path: str) -> Sequence[float]:
        found: list[float] = self._ask("times", path)["ms"]
        return found

    def _ask(self, what: str, path: str) -> Mapping[str, Any]:
        with urlopen(f"http://127.0.0.1:{self._port}/-{what}{path}", timeout=30) as answer:
            found: Mapping[str, Any] = json.load(answer)
            return found

    def _expel(self, name: str, routes: dict[str, Any]) -> AbstractContextManager[subprocess.Popen[bytes]]:
        return self._program("expel", name, routes, self._core)

    def _retrier(self, name: str, routes: dict[str, Any]) -> AbstractContextManager[subprocess.Popen[bytes]]:
        """Beside the broker: what it takes is not expel's."""
        return self._program("retrier", name, routes, sorted(os.sched_getaffinity(0))[-1])

    @contextmanager
    def _program(self, role: str, name: str, routes: dict[str, Any], core: int) -> Iterator[subprocess.Popen[bytes]]:
        data = {
            "name": name,
            "kafka": {"bootstrap_servers": self._servers},
            "pages": {role: "127.0.0.1:0"},
            "expel": routes,
        }
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "pipeline.yaml"
            file.write_text(json.dumps(data), encoding="utf-8")
            command = [sys.executable, "-m", "edge_service", role, "-c", str(file), "--log-level", "warning"]
            process = subprocess.Popen(command, env={**os.environ, "PYTHONPATH": str(Path.cwd())})
            psutil.Process(process.pid).cpu_affinity([core])
            try:
                yield process
            finally:
                process.terminate()
                process.wait(60)


def _produce_evenly(producer: DeliveringProducer, names: Sequence[str]) -> None:
    began, number = time.monotonic(), 0
    while time.monotonic() - began < QUIET_S:
        for each in names:
            producer.produce(each, None, _timed(number))
        number += 1
        producer.flush()
        time.sleep(max(0.0, began + number * ROUTES / PER_SECOND - time.monotonic()))


def _to(port: int, path: str, form: str, timeout: str = "10s") -> dict[str, Any]:
    url = f"http://127.0.0.1:{port}{path}"
    return {"http": {"url": url, "format": form, "allow_private": True, "timeout": timeout}}


def _value(number: int) -> bytes:
    return b'{"id": %d, "at": 0, "text": "%b"}' % (number, b"x" * 150)


def _timed(number: int) -> bytes:
    return b'{"id": %d, "at": %d, "text": "%b"}' % (number, time.time_ns() // 1000, b"x" * 150)


def _quantile(values: Sequence[float], share: float) -> float:
    return sorted(values)[int(len(values) * share)]


@contextmanager
def _receiver(core: int) -> Iterator[int]:
    command = [sys.executable, "-m", "bench.edge.receiver", str(ROUND_TRIP_S)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    psutil.Process(process.pid).cpu_affinity([core])
    try:
        assert process.stdout is not None  # noqa: S101 - a pipe
        yield int(process.stdout.readline())
    finally:
        process.terminate()
        process.wait(10)
