"""A store as the contract tests drive it: rows in as Python values, answers out as Python values."""

import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import pyarrow as pa

from enrich.codecs import JsonDecoder
from stores.protocol import KeyKind, Publication, TableSpec, TableUpdate
from stores.table import Found, HistoryFloor, RowVersion, Status, row_versions
from tests.contract.stores.engines import Engine
from tests.support.clock import ManualClock

COLUMNS = pa.schema(
    [
        pa.field("plan", pa.string()),
        pa.field("rps", pa.int32()),
        pa.field("limits", pa.struct([pa.field("burst", pa.int64()), pa.field("tags", pa.list_(pa.string()))])),
    ]
)


DAY = 86_400_000


def table(history_ms: int = 0, key: KeyKind = KeyKind.EXACT, tombstones_ms: int = DAY) -> TableSpec:
    return TableSpec(COLUMNS, JsonDecoder(COLUMNS), history_ms, key, tombstones_ms)


def version(
    key: str | bytes,
    offset: int,
    row: dict[str, Any] | None,
    *,
    partition: int = 0,
    timestamp: int | None = None,
) -> RowVersion:
    """A row version; its timestamp is its offset in seconds unless given."""
    raw = key.encode() if isinstance(key, str) else key
    time = offset * 1000 if timestamp is None else timestamp
    return RowVersion(raw, partition, offset, time, None if row is None else json.dumps(row).encode())


class Answer(NamedTuple):
    status: Status
    values: dict[str, Any] | None
    position: tuple[int, int] | None
    """Partition and offset of the version that answered."""


class StoreUnderTest:
    def __init__(self, engine: Engine, clock: ManualClock) -> None:
        self._engine = engine
        self.clock = clock
        self.reader = engine.open_reader()
        self._positions: dict[str, dict[int, int]] = {}

    def publish(
        self,
        table_name: str,
        *versions: RowVersion,
        complete_through: int | None = None,
        floors: Mapping[int, HistoryFloor] | None = None,
    ) -> Publication:
        return self.publish_all({table_name: versions}, complete_through=complete_through, floors=floors)

    def publish_all(
        self,
        versions: Mapping[str, Sequence[RowVersion]],
        *,
        complete_through: int | None = None,
        floors: Mapping[int, HistoryFloor] | None = None,
    ) -> Publication:
        updates = {}
        for name, batch in versions.items():
            positions = self._positions.setdefault(name, {})
            for one in batch:
                positions[one.partition] = max(positions.get(one.partition, 0), one.offset + 1)
            updates[name] = TableUpdate(row_versions(batch), dict(positions), complete_through, floors or {})
        return self._engine.writer.publish(updates)

    def remove_expired(self) -> Publication:
        return self._engine.writer.remove_expired()

    def open_reader(self) -> Any:
        return self._engine.open_reader()

    def find(
        self,
        table_name: str,
        *keys: Any,
        columns: Sequence[str] = ("plan",),
        as_of: Sequence[int | None] | None = None,
        pin: Mapping[int, int] | None = None,
    ) -> list[Answer]:
        """Looks the keys up in the newest snapshot; as-of times are in milliseconds."""
        return find(
            self.reader.snapshot().table(table_name),
            pa.array(keys),
            columns,
            as_of=None if as_of is None else pa.array(as_of, pa.timestamp("ms", tz="UTC")),
            pin=pin,
        )


def find(view: Any, keys: pa.Array, columns: Sequence[str] = ("plan",), **options: Any) -> list[Answer]:
    return answers(view.lookup(keys, columns, **options))


def answers(found: Found) -> list[Answer]:
    assert len(found.values) == len(found.status) == len(found.partition) == len(found.offset) == len(found.timestamp)
    places = zip(found.partition.to_pylist(), found.offset.to_pylist(), strict=True)
    return [
        Answer(Status(status), values, None if place[0] is None else place)
        for status, values, place in zip(found.status.to_pylist(), found.values.to_pylist(), places, strict=True)
    ]
