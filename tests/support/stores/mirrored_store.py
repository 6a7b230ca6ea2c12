"""A store of rows with its segments beside it, as an agent keeps them, without the agent; and readers of both."""

import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path

import pyarrow as pa

from enrich.config import Access
from enrich.host.mirror.bases import BaseOrder, TooLarge, make_base
from enrich.host.mirror.keeper import Mirrored, SegmentsKeeper
from stores.errors import CorruptState, Retryable
from stores.protocol import Clock, TableSpec, TableUpdate, TableView
from stores.rocks import RocksReader, RocksStore, Sizes
from stores.segments import SegmentsReader, SegmentsSnapshot, Written
from stores.table import Offsets, RowVersion, row_versions
from tests.support.waiting import wait_until


class MirroredStore:
    """Starts with the first `start`; every start after that is a restart."""

    def __init__(
        self, directory: Path, specs: Mapping[str, TableSpec], clock: Clock, *, auto: bool = False, room: int = 0
    ) -> None:
        self.segments = directory / "segments"
        self._rows = directory / "rows"
        self._specs = dict(specs)
        self._clock = clock
        self._access = Access.auto if auto else Access.mapped
        self._room = room
        self._positions: dict[str, dict[int, int]] = {name: {} for name in specs}
        self.built: list[str] = []
        """Which bases were made, in their order."""
        self.hold = threading.Event()
        """No base is made while this is cleared."""
        self.hold.set()

    def start(self, *, mirrored: bool = True) -> "MirroredStore":
        self.store = RocksStore(self._rows, self._specs, self._clock)

        def make(order: BaseOrder, should_stop: Callable[[], bool]) -> Written | TooLarge:
            self.built.append(order.table)
            wait_until(self.hold.is_set, what="leave to make a base")
            return make_base(self._rows, self._specs, Sizes(1 << 20, 1 << 20), order)

        tables = {name: Mirrored(spec, self._access) for name, spec in self._specs.items()} if mirrored else {}
        self.keeper = SegmentsKeeper(self.store, self.segments, tables, make, self._clock, room=self._room)
        return self

    def stop(self) -> None:
        self.keeper.close()
        self.store.close()

    def publish(self, table: str, *versions: RowVersion) -> None:
        self._reach(table, versions)
        self.store.publish({table: TableUpdate(row_versions(versions), dict(self._positions[table]))})

    def load(self, table: str, *versions: RowVersion) -> None:
        """Loads the table anew: these rows in place of all that it had."""
        self._positions[table] = {}
        self._reach(table, versions)
        load = self.store.bulk(table)
        load.add(row_versions(versions))
        load.finish(dict(self._positions[table]))

    def newest(self) -> SegmentsSnapshot | None:
        """What readers find, if it is as new as the store."""
        with suppress(Retryable, CorruptState):
            snapshot = SegmentsReader(self.segments, self._specs).snapshot()
            return snapshot if snapshot.seq == self.store.seq else None
        return None

    def until_mapped(self, *tables: str) -> SegmentsSnapshot:
        """Waits until these tables (all, unless named) stand in segments."""

        def mapped() -> SegmentsSnapshot | None:
            snapshot = self.newest()
            return snapshot if snapshot is not None and all(map(snapshot.has, tables or self._specs)) else None

        found = wait_until(mapped, what="segments")
        assert found is not None
        return found

    def assert_same(self, table: str, keys: pa.Array, *, pin: Offsets | None = None) -> None:
        """Segments answer as RocksDB does, positions and all."""
        reader = RocksReader(self._rows, self._specs)
        try:
            rows, segments = reader.snapshot(), self.until_mapped(table)
            views: list[TableView] = [rows.table(table), segments.table(table)]
            assert rows.seq == segments.seq
            assert views[0].positions == views[1].positions
            assert views[0].floors == views[1].floors
            one, other = (view.lookup(keys, view.columns.names, pin=pin) for view in views)
            assert one.status.to_pylist() == other.status.to_pylist()
            assert one.values.to_pylist() == other.values.to_pylist()
            assert one.offset.to_pylist() == other.offset.to_pylist()
        finally:
            reader.close()

    def _reach(self, table: str, versions: tuple[RowVersion, ...]) -> None:
        positions = self._positions[table]
        for one in versions:
            positions[one.partition] = max(positions.get(one.partition, 0), one.offset + 1)
