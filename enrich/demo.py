"""What `enrich demo` shows: a table published to a compacted topic, updated, deleted, and read back from local state.

It grows with the product; whatever it shows runs for real, on a broker of its own.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from enrich.codecs import JsonDecoder
from enrich.kafka import (
    COMPACTED,
    Connection,
    DeliveringProducer,
    Topics,
    new_admin_client,
    new_store_consumer,
    read_to_end,
)
from enrich.kafka.records import row_versions_of
from stores.clock import SystemClock
from stores.memory import MemoryStore
from stores.protocol import TableSpec, TableUpdate, TableView
from stores.table import TIMESTAMP, Found, Status

TOPIC = "users.v1"
COLUMNS = pa.schema([pa.field("plan", pa.string()), pa.field("region", pa.string())])
_HOUR_MS = 3_600_000

_USERS: Mapping[str, Mapping[str, str]] = {
    "ann": {"plan": "free", "region": "eu"},
    "bob": {"plan": "pro", "region": "us"},
    "eve": {"plan": "free", "region": "ap"},
}
_PROBES = ["ann", "bob", "eve", "zoe", None]


@dataclass(frozen=True)
class Answer:
    """One looked-up key, as people and machines are shown it."""

    key: str | None
    status: str
    value: Mapping[str, Any] | None
    partition: int | None
    offset: int | None


@dataclass(frozen=True)
class Step:
    title: str
    answers: Sequence[Answer]
    complete_through_ms: int
    """Everything that was in the topic at this time is in the answers."""


def steps(connection: Connection) -> Iterator[Step]:
    """Runs the demo against a broker, one step at a time. The topic must not be there yet."""
    Topics(new_admin_client(connection)).create(TOPIC, partitions=3, config=COMPACTED)
    table = _DemoTable(connection)
    try:
        table.change(_USERS)
        before_the_change = table.complete_through()
        yield table.step("three users are published")
        pin = table.positions()
        table.change({"ann": {"plan": "pro", "region": "eu"}, "bob": None})
        yield table.step("ann upgrades her plan, bob is deleted")
        as_of = pa.array([before_the_change] * len(_PROBES), TIMESTAMP)
        yield table.step("the same keys, as of the time before that", as_of=as_of)
        yield table.step(f"the same keys, pinned to the offsets {pin}", pin=pin)
    finally:
        table.close()


class _DemoTable:
    """One topic with its local copy, changed and read in turn."""

    def __init__(self, connection: Connection) -> None:
        self._producer = DeliveringProducer(connection)
        self._topics = Topics(new_admin_client(connection))
        self._consumer = new_store_consumer(connection)
        self._clock = SystemClock()
        spec = TableSpec(COLUMNS, JsonDecoder(COLUMNS), history_ms=_HOUR_MS)
        self._store = MemoryStore({"users": spec}, self._clock)
        self._reader = self._store.reader()

    def change(self, rows: Mapping[str, Mapping[str, str] | None]) -> None:
        """Produces the rows (None: a tombstone) and returns once they are acknowledged and visible."""
        for key, row in rows.items():
            self._producer.produce(TOPIC, key.encode(), None if row is None else json.dumps(row).encode())
        self._producer.flush()
        self._catch_up()

    def positions(self) -> dict[int, int]:
        return dict(self._view().positions)

    def complete_through(self) -> int:
        return self._view().complete_through or 0

    def step(self, title: str, **options: Any) -> Step:
        """Looks all keys up and says how fresh the answers are."""
        found = self._view().lookup(pa.array(_PROBES), COLUMNS.names, **options)
        return Step(title, _answers(found), self.complete_through())

    def close(self) -> None:
        self._consumer.close()
        self._producer.close()

    def _view(self) -> TableView:
        return self._reader.snapshot().table("users")

    def _catch_up(self) -> None:
        asked_at = self._clock.now_ms()
        ends = self._topics.end_offsets(TOPIC)
        messages = [m for batch in read_to_end(self._consumer, TOPIC, self.positions(), ends) for m in batch]
        versions = row_versions_of(messages)
        self._store.publish({"users": TableUpdate(versions, positions=ends, complete_through=asked_at)})


def _answers(found: Found) -> list[Answer]:
    columns = (_PROBES, found.status, found.values, found.partition, found.offset)
    return [
        Answer(key, Status(status).name.lower(), value, partition, offset)
        for key, status, value, partition, offset in zip(*(pa.array(c).to_pylist() for c in columns), strict=True)
    ]
