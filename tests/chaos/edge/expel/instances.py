"""Instances of expel and of the retrier, the load on their route, and the audit of what became of it."""

import json
import threading
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from enrich.dev.sink.seen import parse_origins
from enrich.kafka import DeliveringProducer
from tests.support.edge.expel import ExpelProcess, ExpelWorld
from tests.support.edge.retries import RetrierProcess
from tests.support.edge.sinks import RunningSink
from tests.support.waiting import wait_until

PARTITIONS = 4
KEYS = 40
Place = tuple[str, int, int]


class Instances:
    """Those that a test has started end with it."""

    def __init__(self, folder: Path, world: ExpelWorld, held: ExitStack) -> None:
        self._folder = folder
        self._world = world
        self._held = held
        self._count = 0

    def expel(self) -> ExpelProcess:
        self._count += 1
        instance = ExpelProcess(self._folder / f"expel-{self._count}", self._world)
        self._held.callback(instance.close)
        return instance

    def retrier(self) -> RetrierProcess:
        self._count += 1
        instance = RetrierProcess(self._folder / f"retrier-{self._count}", self._world)
        self._held.callback(instance.close)
        return instance


class Load:
    """About a thousand events a second, until it is stopped. An event's value is its key and its number within it."""

    def __init__(self, world: ExpelWorld) -> None:
        self._world = world
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._produce)
        self._thread.start()

    def _produce(self) -> None:
        number = 0
        with DeliveringProducer(self._world.cluster.connection) as producer:
            while not self._stopping.wait(0.02):
                for _ in range(20):
                    number += 1
                    key = number % KEYS
                    value = json.dumps({"key": key, "number": number}).encode()
                    producer.produce(self._world.topic(), b"%d" % key, value, partition=key % PARTITIONS)

    def stop(self) -> None:
        self._stopping.set()
        self._thread.join()


@contextmanager
def load(world: ExpelWorld) -> Iterator[None]:
    running = Load(world)
    try:
        yield
    finally:
        running.stop()


def at_work(instance: ExpelProcess, more: int = 200) -> None:
    before = instance.count()
    wait_until(lambda: instance.count() >= before + more, what="an instance at work")


def produced(world: ExpelWorld) -> set[Place]:
    ends = world.cluster.topics.end_offsets(world.topic())
    return {(world.topic(), number, offset) for number, end in ends.items() for offset in range(end)}


class Arrivals:
    """What the sink has taken, request by request, once it has written all of it."""

    def __init__(self, sink: RunningSink, lines: Path) -> None:
        self._sink = sink
        self._lines = lines

    def require_all(self, world: ExpelWorld, most_repeated: int = 0) -> None:
        """Each event, by its origin; none is dead, and at most so many came again."""
        wanted = produced(world)
        assert len(wanted) > 500
        try:
            wait_until(lambda: self._sink.origins("/acme") >= wanted, deadline_s=180, what="the events")
        finally:
            missing = sorted(wanted - self._sink.origins("/acme"))
            assert not missing, f"{len(missing)} of {len(wanted)} are missing: {missing[:10]}"
        assert self._sink.origins("/acme") == wanted
        assert not world.letters()
        repeated = self._sink.seen("/acme")["duplicates"]
        assert repeated <= most_repeated, f"{repeated} events came again: {self._repeated()}"

    def require_order(self, *, with_repeats: bool = False) -> None:
        """`with_repeats`: some came again after a kill, and only the first time counts."""
        found: defaultdict[int, list[int]] = defaultdict(list)
        for request in self._requests():
            for each in request["body"].splitlines():
                event = json.loads(each)
                found[event["key"]].append(event["number"])
        for numbers in found.values():
            first = list(dict.fromkeys(numbers)) if with_repeats else numbers
            assert first == sorted(first)

    def _repeated(self) -> Sequence[tuple[Place, list[int]]]:
        """Some of them, and when they came."""
        times: defaultdict[Place, list[int]] = defaultdict(list)
        for request in self._requests():
            for place, first, last in parse_origins(request["origins"]):
                for offset in range(first, last + 1):
                    times[*place, offset].append(request["received_ms"])
        return [(place, each) for place, each in sorted(times.items()) if len(each) > 1][:20]

    def _requests(self) -> Sequence[Mapping[str, Any]]:
        def taken() -> Sequence[Mapping[str, Any]]:
            # The last line may not be whole yet.
            found = [json.loads(line) for line in self._lines.read_text().split("\n")[:-1]]
            return [request for request in found if request["taken"]]

        def count() -> int:
            return sum(request["body"].count("\n") for request in taken())

        wait_until(lambda: count() == self._sink.seen("/acme")["taken"], what="the lines of all requests")
        return taken()
