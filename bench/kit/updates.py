"""A steady stream of numbered updates of a few keys, and when another process saw each of them.

    python -m bench.kit.updates     the other process: the pipeline on standard input, one line when it is ready, then,
                                    once standard input ends, when it saw which number, as one JSON object

Both processes read the clock that counts since the machine's boot.
"""

import json
import select
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import pyarrow as pa

from bench.kit.metadata import key_of, row_of
from bench.kit.processes import running, started, tell
from enrich.config import Pipeline, from_wire, to_wire
from enrich.host.reader.reading import AgentReader, AgentSnapshot
from enrich.kafka import new_producer

PER_SECOND = 1_000
KEYS = 100
"""Update n is of key n % KEYS and has n in the column `rps`; the next one of this key is n + KEYS."""

_TICK_S = 0.001
_DEADLINE_S = 120


class Updates:
    """Produces while it is open; says when it sent each number."""

    def __init__(
        self, bootstrap_servers: str, topic: str, first: int, *, more: Sequence[str] = (), per_second: int = PER_SECOND
    ) -> None:
        """`first`: above all numbers that were ever produced, the versions of rows that a topic was filled with too.
        `more`: topics that get each update as well."""
        # As a producer that wants its updates to be seen soon.
        self._producer = new_producer({"bootstrap.servers": bootstrap_servers}, **{"linger.ms": 0})
        self._topics = topic, *more
        self._first = first
        self._per_second = per_second
        self._stopped = threading.Event()
        self._is_under_way = threading.Event()
        self.sent: dict[int, float] = {}
        """When, by number."""

    def wait_until_under_way(self) -> None:
        """Returns once the brokers took an update: the first one of an idempotent producer waits half a second."""
        if not self._is_under_way.wait(_DEADLINE_S):
            raise RuntimeError("the brokers take no update")

    @contextmanager
    def flowing(self) -> Iterator[None]:
        try:
            with running(self._produce, self._stopped):
                yield
        finally:
            self._producer.flush()

    def _produce(self) -> None:
        started = time.monotonic()
        while not self._stopped.wait(_TICK_S):
            due = int((time.monotonic() - started) * self._per_second)
            for number in range(self._first + len(self.sent), self._first + due):
                self.sent[number] = time.monotonic()
                row, key = row_of(number, number), key_of(number % KEYS)
                for topic in self._topics:
                    self._producer.produce(topic, row, key, on_delivery=lambda *_: self._is_under_way.set())
            self._producer.poll(0)


class Watching:
    """The other process. Ready when the constructor returns."""

    def __init__(self, pipeline: Pipeline, table: str, *, alone: bool = False) -> None:
        """`alone`: its reader is for this table, and not for all of the pipeline."""
        self._process = started("bench.kit.updates")
        tell(self._process, {"pipeline": to_wire(pipeline), "table": table, "tables": [table] if alone else None})
        if self._process.stdout is None or self._process.stdout.readline().strip() != "ready":
            raise RuntimeError("the watching process ended before it was ready")

    @property
    def pid(self) -> int:
        return self._process.pid

    def seen(self) -> dict[int, float]:
        """Ends the process. When it saw each number, or a later one of the same key."""
        answer, _ = self._process.communicate("\n", timeout=_DEADLINE_S)
        return {int(number): at for number, at in json.loads(answer).items()}


class _Watch:
    """The newest number of each key that was seen."""

    def __init__(self, reader: AgentReader, table: str) -> None:
        self._reader = reader
        self._table = table
        self._keys = pa.array([key_of(number) for number in range(KEYS)])
        self._seq = reader.snapshot().seq
        self._newest = self._look(reader.snapshot())

    def look(self) -> list[int]:
        """The numbers that were not there at the look before."""
        snapshot = self._reader.snapshot()
        if snapshot.seq == self._seq:
            return []
        before, self._newest, self._seq = self._newest, self._look(snapshot), snapshot.seq
        # An update may have come and gone between two looks: it counts as seen with the one after it.
        return [number for old, new in zip(before, self._newest, strict=True) for number in range(new, old, -KEYS)]

    def _look(self, snapshot: AgentSnapshot) -> list[int]:
        numbers = snapshot.table(self._table).lookup(self._keys, ["rps"]).values.field("rps").to_pylist()
        return [int(number) for number in numbers]


def main() -> None:
    start = json.loads(sys.stdin.readline())
    reader = AgentReader(from_wire(start["pipeline"]), tables=start["tables"])
    reader.wait_until_ready([start["table"]], deadline_s=_DEADLINE_S)
    watch = _Watch(reader, start["table"])
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    seen: dict[int, float] = {}
    while not select.select([sys.stdin], [], [], _TICK_S)[0]:
        numbers = watch.look()
        now = time.monotonic()
        seen.update((number, now) for number in numbers)
    sys.stdout.write(json.dumps(seen))
    reader.close()


if __name__ == "__main__":
    main()
