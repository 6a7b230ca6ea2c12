"""One refresh of a loader table: the whole source is read, and what differs from the store becomes row versions.

The source has no offsets. So the table's only partition counts this host's changes, continuing from the store's
position: an unchanged row keeps its offset, also across restarts.
"""

from collections.abc import Callable, Iterator, Sequence, Set
from contextlib import closing
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from enrich.host.loaders.source import SOURCE_ROWS, RowSource
from enrich.host.loaders.whole import WholeRead, read_whole
from stores.networks import parse_network
from stores.protocol import Clock, KeyKind, Quarantined, TableSpec, TableUpdate
from stores.rocks import RocksReader, RocksStore
from stores.table import ROW_VERSIONS, HistoryFloor, RowVersion, row_versions

PARTITION = 0
NEVER = 0
"""complete_through of a table whose rows were dropped: what it was until then says nothing of a table without rows."""

_MOST_IN_ONE_WRITE = 5_000
"""More changes than this are loaded beside the old rows and swapped in, so that they do not block the agent's loop: one
row of a publication costs it 14 us."""
_AGREEING = 3
"""So many reads in a row must agree: that gives time to refill a flushed cache, or to finish a half-written file."""
_ROWS_A_BATCH = 10_000

KeyAndValue = tuple[bytes | None, bytes | None]


@dataclass(frozen=True, slots=True)
class Kept:
    """The rows of a loader table in the store."""

    living: pa.Table
    """As `ROW_VERSIONS`: the newest version of each key that is not deleted."""
    tombstones: int
    quarantined: Set[KeyAndValue]
    newest_ms: int = 0
    """The latest time of any version."""


@dataclass(frozen=True, slots=True)
class Changes:
    """From the rows in the store to those that were read."""

    put: pa.Table
    """As `SOURCE_ROWS`: new and changed rows, sorted by key."""
    gone: pa.Array
    """The keys of rows that the source no longer has, sorted."""


def kept_rows(store: Path, name: str, spec: TableSpec) -> Kept:
    """Read from the store each time and not cached: so it is right whatever happened to the store."""
    with closing(RocksReader(store, {name: spec})) as reader:
        view = reader.snapshot().table(name)
        table = pa.Table.from_batches(_in_batches(view.scan()), ROW_VERSIONS)
        quarantined = {(record.key, record.value) for record in view.quarantined()}
    living = table.filter(pc.is_valid(table["value"]))
    return Kept(living, len(table) - len(living), quarantined, pc.max(table["timestamp"]).as_py() or 0)


def changes(read: pa.Table, living: pa.Table) -> Changes:
    """The changes from the living rows to those that were read (`SOURCE_ROWS`, each key once)."""
    put = read.join(living.select(SOURCE_ROWS.names), keys=SOURCE_ROWS.names, join_type="left anti")
    gone = living.select(["key"]).join(read.select(["key"]), keys=["key"], join_type="left anti")
    return Changes(put.sort_by("key").cast(SOURCE_ROWS), gone.sort_by("key")["key"].combine_chunks())


def without(rows: pa.Table, keys: pa.Array) -> pa.Table:
    """The rows whose keys are not among these."""
    others = rows.join(pa.table({"key": keys}), keys=["key"], join_type="left anti")
    return others.select(rows.schema.names).cast(rows.schema)


def _in_batches(versions: Iterator[RowVersion]) -> Iterator[pa.RecordBatch]:
    while batch := list(islice(versions, _ROWS_A_BATCH)):
        yield row_versions(batch)


@dataclass(frozen=True, slots=True)
class Refreshed:
    """The result of a refresh."""

    complete_through: int | None = None
    """When the read began: valid once the update is published. None if the read is not believed."""
    update: TableUpdate | None = None
    """To be published; None if nothing changed, or if the changes were so many that they are in the store already."""
    remarks: Sequence[str] = field(default_factory=tuple)
    """What users should know about the table."""
    dropped: bool = False
    """Whether all rows are deleted because they are too old."""


class Refresher:
    """Refreshes one table. Nobody else may publish row versions of the table. For one thread at a time."""

    def __init__(
        self,
        name: str,
        spec: TableSpec,
        source: RowSource,
        store: RocksStore,
        clock: Clock,
        report_quarantined: Callable[[Sequence[Quarantined]], None],
        *,
        most_in_one_write: int = _MOST_IN_ONE_WRITE,
    ) -> None:
        self._name = name
        self._spec = spec
        self._source = source
        self._store = store
        self._clock = clock
        self._report_quarantined = report_quarantined
        self._most_in_one_write = most_in_one_write
        self._guard = ShrinkGuard()
        self._applied: bytes | None = None
        """The digest of the last read that is in the store. A read with the same digest needs no comparison."""
        self._refused: Set[KeyAndValue] = set()
        """The rows that the store refused when the last read was applied."""

    def refresh(self, report: Callable[[int], None], stopping: Callable[[], bool]) -> Refreshed:
        """Raises what the source and the store raise; the table is then unchanged. `report`: see `read_whole`."""
        began = self._clock.now_ms()
        read = read_whole(self._source, self._spec.key, report, stopping)
        digest = read.digest()
        if digest == self._applied:
            self._guard.believe()
            return Refreshed(began, remarks=_remarks(read))
        kept = kept_rows(self._store.path, self._name, self._spec)
        doubt = self._guard.doubt(served=len(kept.living), read=len(read.rows))
        if doubt is not None:
            return Refreshed(remarks=(doubt, *_remarks(read)))
        update = self._apply(kept, self._not_refused_before(kept, changes(read.rows, kept.living)), began, began)
        self._applied = digest
        return Refreshed(began, update, _remarks(read))

    def forget(self) -> None:
        """The next refresh compares with the store again: the result of the last read may not be in it."""
        self._applied = None

    def drop(self) -> Refreshed:
        """Deletes all rows."""
        kept = kept_rows(self._store.path, self._name, self._spec)
        all_gone = Changes(SOURCE_ROWS.empty_table(), kept.living["key"].combine_chunks())
        self._applied = None
        return Refreshed(update=self._apply(kept, all_gone, self._clock.now_ms(), NEVER), dropped=True)

    def _not_refused_before(self, kept: Kept, found: Changes) -> Changes:
        """Leaves out bad rows that are known: each goes to the quarantine once, not with every change or restart."""
        bad = np.flatnonzero(_bad(self._spec, found.put))
        rows = found.put.take(pa.array(bad))
        pairs = list(zip(*(rows.column(name).to_pylist() for name in SOURCE_ROWS.names), strict=True))
        before = self._refused | kept.quarantined
        known = [int(index) for index, pair in zip(bad, pairs, strict=True) if pair in before]
        self._refused = set(pairs)
        is_new = np.ones(len(found.put), bool)
        is_new[known] = False
        return Changes(found.put.filter(pa.array(is_new)), found.gone)

    def _apply(self, kept: Kept, found: Changes, now: int, through: int | None) -> TableUpdate | None:
        """The update; None if nothing changed, or if the changes were so many that they are in the store already."""
        now = max(now, kept.newest_ms)  # a clock that was set back must not make newer versions look older
        position = self._store.tables[self._name].positions.get(PARTITION, 0)
        versions = _versions(found, position, now)
        positions = {PARTITION: position + len(versions)}
        most = self._most_in_one_write
        # A load removes tombstones. Otherwise they would stay, and keys that come and go would make the table grow.
        if len(versions) > most or (len(versions) and kept.tombstones > max(most, len(kept.living))):
            self._swap(kept, versions, positions, now, through)
            return None
        return TableUpdate(_one_batch(versions), positions, through) if len(versions) else None

    def _swap(self, kept: Kept, versions: pa.Table, positions: dict[int, int], now: int, through: int | None) -> None:
        good = versions.filter(pa.array(~_bad(self._spec, versions)))
        with self._store.bulk(self._name) as load:
            # An unchanged row keeps its version. One whose new value is bad keeps the row that it had.
            for batch in without(kept.living, good["key"].combine_chunks()).to_batches():
                load.add(batch)
            for batch in versions.to_batches():
                self._report_quarantined(load.add(batch))
            load.finish(positions, {PARTITION: HistoryFloor(positions[PARTITION], now)}, through)


def _bad(spec: TableSpec, rows: pa.Table) -> "np.ndarray[tuple[int], np.dtype[np.bool_]]":
    """Which rows the store will refuse."""
    bad = np.zeros(len(rows), np.bool_)
    bad[list(spec.decoder.decode(rows["value"].combine_chunks()).bad)] = True
    if spec.key is KeyKind.CIDR:
        bad |= np.array([not _is_network(key) for key in rows["key"].to_pylist()], np.bool_)
    return bad


def _is_network(key: bytes) -> bool:
    try:
        parse_network(key)
    except ValueError:
        return False
    return True


def _versions(found: Changes, position: int, now: int) -> pa.Table:
    count = len(found.put) + len(found.gone)
    columns = [
        pa.chunked_array([*found.put["key"].chunks, found.gone], pa.binary()),
        pa.array(np.full(count, PARTITION), pa.int32()),
        pa.array(np.arange(position, position + count), pa.int64()),
        pa.array(np.full(count, now), pa.int64()),
        pa.chunked_array([*found.put["value"].chunks, pa.nulls(len(found.gone), pa.binary())], pa.binary()),
    ]
    return pa.Table.from_arrays(columns, schema=ROW_VERSIONS).combine_chunks()


def _one_batch(versions: pa.Table) -> pa.RecordBatch:
    batches = versions.combine_chunks().to_batches()
    return batches[0] if batches else row_versions(())


def _remarks(read: WholeRead) -> Sequence[str]:
    empty = () if len(read.rows) else ("the source has no rows",)
    return (*empty, *(f"{count:,} rows {reason}" for reason, count in sorted(read.left_out.items())))


class ShrinkGuard:
    """Decides when to believe a source: a single read must not make more than half of a table's rows vanish."""

    def __init__(self) -> None:
        self._doubtful = 0

    def doubt(self, served: int, read: int) -> str | None:
        """Why this read is not believed yet; None if it is. Called once for each whole read."""
        self._doubtful = self._doubtful + 1 if 2 * read < served else 0
        if self._doubtful in (0, _AGREEING):
            self.believe()
            return None
        what = "no rows" if read == 0 else f"{read:,} rows"
        return (
            f"the source has {what} where {served:,} are served; these stay until {_AGREEING} reads in a row say so "
            f"(this was number {self._doubtful})"
        )

    def believe(self) -> None:
        """Starts the count again: a read was as expected."""
        self._doubtful = 0
