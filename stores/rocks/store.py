"""The writer of a store: one publication is one write and one flush, all tables together."""

import contextlib
import threading
import uuid
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

from stores.answers import higher, unknown_table
from stores.errors import ConfigError, CorruptState, EnrichError
from stores.protocol import Clock, Decoder, KeyKind, Publication, Quarantined, QuarantineId, TableSpec, TableUpdate
from stores.rocks.database import Database, Sizes
from stores.rocks.directory import Directory, Watermark, read_watermark
from stores.rocks.layout import CHANGE_FEED, end_of, table_ids, table_ranges
from stores.rocks.load.bulk import BulkLoad, Reserved
from stores.rocks.state import StoreState, TableState, read_state
from stores.rocks.write.columns import Columns
from stores.rocks.write.fold import Folding, expired
from stores.rocks.write.incoming import Incoming, Mirror, Prepared, TableChange
from stores.rocks.write.setting_aside import Room, SetAside, Waiting, carried_over, published, purged
from stores.table import Seq

_EXPIRED_IN_ONE_PASS = 50_000
_MANY = 64
"""From so many versions on, columns are faster than one record at a time."""


class RocksStore:
    """A store open for writing. Safe to use from several threads: a bulk load runs beside publications.

    A failed write (a full disk, say) leaves nothing behind: the next write opens the database again, which drops what
    was not acknowledged, and continues from what was.
    """

    def __init__(
        self,
        directory: Path,
        tables: Mapping[str, TableSpec],
        clock: Clock,
        *,
        sizes: Sizes | None = None,
        room: Room | None = None,
    ) -> None:
        """Opens the store, or creates one if the directory is empty or missing.

        Raises CorruptState for a store that must be rebuilt (damaged, older format), ConfigError for a newer format,
        Fenced while another process writes it.
        """
        self._directory = Directory(directory)
        self._specs = dict(tables)
        self._clock = clock
        self._sizes = sizes or Sizes()
        self._room = room or Room()
        self._lock = threading.RLock()
        self._is_broken = False
        self._mirror: Mirror | None = None
        self._loading: set[int] = set()
        # Its thread starts with the first task, so that the process can still fork before that.
        self._tidying = ThreadPoolExecutor(max_workers=1, thread_name_prefix="tidying")
        self._database, self._state = self._opened(may_make=True)
        self._to_expire = deque(self._specs)
        """Tables, the one that waited longest first."""
        with contextlib.ExitStack() as when_it_fails:
            # A retry must not find the database locked by this attempt.
            when_it_fails.callback(lambda: self._database.close())
            self._watermark = Watermark(directory, self._state.seq)
            when_it_fails.callback(self._watermark.close)
            self._directory.sweep()
            self._remove_change_feed()
            self._remove_orphans()
            self._add_missing_tables()
            when_it_fails.pop_all()

    @property
    def path(self) -> Path:
        """The directory that readers open."""
        return self._directory.path

    @property
    def seq(self) -> Seq:
        return self._state.seq

    @property
    def tables(self) -> Mapping[str, TableState]:
        """The current state of each table: positions, floors, counts."""
        return self._state.tables

    def mirror(self, mirror: Mirror) -> StoreState:
        """Passes every publication from now on to the mirror. Returns the state as of now."""
        with self._lock:
            self._mirror = mirror
            return self._state

    def prepare(self, table: str, update: TableUpdate, decoder: Decoder | None = None) -> Prepared:
        """Decodes an update, with `decoder` if one is given. `publish` takes the result instead of the update: then a
        decoder that waits or fails does not affect other tables. Raises what the decoder raises."""
        spec = self._specs[self._known(table)]
        if decoder is not None:
            spec = replace(spec, decoder=decoder)
        return Prepared.of(update, self._state.tables[table], spec, self._clock.now_ms())

    def publish(self, updates: Mapping[str, TableUpdate | Prepared]) -> Publication:
        """See `Writer`. Returns once the publication is on disk; raises Retryable when the disk is full.

        If a decoder raises, nothing has been written.
        """
        prepared = {self._known(n): u if isinstance(u, Prepared) else self.prepare(n, u) for n, u in updates.items()}
        while True:
            with self._writing():
                moved = [name for name, one in prepared.items() if not one.fits(self._state.tables[name])]
                if not moved:
                    return self._published(prepared)
            # Loads of these tables were swapped in meanwhile. Decode again, without the lock.
            for name in moved:
                prepared[name] = self.prepare(name, prepared[name].update, prepared[name].spec.decoder)

    def remove_expired(self, most: int | None = None) -> Publication:
        """See `Writer`. Removes at most so many versions, of all tables in turn: the next pass removes what is left."""
        most = _EXPIRED_IN_ONE_PASS if most is None else most
        with self._writing():
            deletes: list[bytes] = []
            changed: list[TableState] = []
            looked_at = removed = 0
            now = self._clock.now_ms()
            for name in list(self._to_expire):
                if looked_at >= most:
                    break
                self._to_expire.rotate(-1)
                gone = expired(self._database, self._state.tables[name], self._specs[name], now, most - looked_at)
                looked_at, removed = looked_at + gone.looked_at, removed + gone.removed
                deletes += gone.deletes
                if gone.deletes:
                    changed.append(gone.table)
            if deletes:
                self._show(changed, {}, deletes)
            return Publication(self.seq, removed=removed, looked_at=looked_at)

    def purge(self, table: str, ids: Iterable[QuarantineId]) -> Publication:
        """Removes these records from the table's quarantine; unknown ids are ignored."""
        with self._writing():
            self._known(table)
            before = self._state.tables[table]
            gone = purged(self._database, before, ids)
            self._show([replace(before, quarantine=gone.state)], {}, gone.deletes)
            return Publication(self.seq)

    def bulk(self, table: str, *, budget: int | None = None) -> BulkLoad:
        """Loads a table anew beside its old rows, which keep answering until `finish` swaps in the new ones.

        Publications go on meanwhile. `budget`: bytes of rows that the load may hold in memory, if not the default.
        """
        return BulkLoad(self, self._specs[self._known(table)], self.reserve(table, budget=budget))

    def reserve(self, table: str, *, budget: int | None = None) -> Reserved:
        """The first step of `bulk`, for a load that another process prepares. See `Target` for the next steps."""
        with self._writing():
            self._known(table)
            reserved = Reserved(
                TableState(table, self._new_table_id(), self._specs[table].key),
                Waiting(self._database, self._state.tables[table].table_id),
                work=self._directory.new_work(),
                budget=budget or self._sizes.bulk,
                sizes=self._sizes,
                room=self._room,
                now=self._clock.now_ms(),
            )
            self._loading.add(reserved.table.table_id)
            return reserved

    def memory(self) -> Mapping[str, int]:
        """Bytes that the database holds in memory now, by purpose; nothing while it cannot be opened again."""
        with self._lock:
            return {} if self._is_broken else self._database.memory()

    def close(self) -> None:
        self._tidying.shutdown(wait=False, cancel_futures=True)
        with self._lock, contextlib.ExitStack() as closing:
            closing.callback(self._tidying.shutdown)  # runs after the close, which ends a running compaction
            closing.callback(self._watermark.close)
            closing.callback(self._database.close)

    # What a bulk load needs of the store.

    def ingest(self, files: Sequence[Path]) -> None:
        """Ingests sorted files. Their rows belong to a table id that nobody reads yet."""
        with self._writing():
            self._database.ingest(files)

    def write_unseen(self, puts: Mapping[bytes, bytes]) -> None:
        """Writes rows of a table id that nobody reads yet. They are on disk when this returns."""
        with self._writing():
            self._database.write(puts)
            self._database.flush()

    def swap(self, table: TableState, aside: SetAside, waiting: Waiting) -> Publication:
        """Gives a table its new table id and removes the rows of the old one, in one write."""
        with self._writing():
            old = self._state.tables[table.name]
            aside = carried_over(self._database, old, waiting, aside)
            shown = replace(table, quarantine=aside.state)
            puts, gone = aside.puts(table.table_id), table_ranges(old.table_id)
            self._show([shown], puts, ranges=gone, replaced=[table.name])
            self._loading.discard(table.table_id)
            publication = Publication(self.seq)
        if old.rows:
            self._tidying.submit(self._give_space_back, old.table_id)
        return publication

    def abandon(self, table_id: int) -> None:
        """Removes the rows of a bulk load that will not be finished.

        If they are already visible to readers, they stay: a load may fail in its very last steps, after the swap."""
        with self._writing():
            is_shown = table_id in {table.table_id for table in self._state.tables.values()}
            # On a full disk loads fail again and again before they have a row, and ids are few: no write for those.
            if not is_shown and self._has_rows(table_id):
                self._database.write({}, ranges=table_ranges(table_id))
                self._database.flush()
            self._loading.discard(table_id)

    # Inside.

    def _has_rows(self, table_id: int) -> bool:
        return any(next(self._database.scan(*rows), None) is not None for rows in table_ranges(table_id))

    def _give_space_back(self, table_id: int) -> None:
        # Errors can be ignored: RocksDB's own compactions free these rows later, and damage shows when it is read.
        with contextlib.suppress(Exception):
            for begin, end in table_ranges(table_id):
                self._database.compact(begin, end)

    def _published(self, updates: Mapping[str, Prepared]) -> Publication:
        puts: dict[bytes, bytes] = {}
        deletes: list[bytes] = []
        changed: list[TableState] = []
        quarantined: list[Quarantined] = []
        for name, one in updates.items():
            before = self._state.tables[name]
            aside = published(self._database, before, one.came.quarantined, self._room)
            puts.update(aside.puts(before.table_id))
            changed.append(replace(self._folded(name, one.update, one.came, puts, deletes), quarantine=aside.state))
            quarantined += one.came.quarantined
        self._show(changed, puts, deletes, arrived={name: one.came for name, one in updates.items()})
        return Publication(self.seq, tuple(quarantined))

    def _opened(self, *, may_make: bool) -> tuple[Database, StoreState]:
        is_new = self._directory.prepare(may_make=may_make)
        database = Database.primary(self._directory.database, self._sizes, create=is_new)
        try:
            if is_new:
                state = StoreState(Seq(uuid.uuid4().hex, generation=0, counter=0), {}, next_table_id=1)
                database.write(state.rows())
                database.flush()
            else:
                state = read_state(database)
                self._require_acknowledged(state)
        except BaseException:
            database.close()
            raise
        return database, state

    def _require_acknowledged(self, state: StoreState) -> None:
        acknowledged = read_watermark(self._directory.path)
        if acknowledged.store != state.seq.store or acknowledged > state.seq:
            raise CorruptState(
                f"the store is at {state.seq.counter}, but {acknowledged.counter} was acknowledged",
                where=str(self._directory.path),
                next_step="rebuild it from its topics",
            )

    @contextlib.contextmanager
    def _writing(self) -> Iterator[None]:
        """Exclusive access to a database with exactly what was acknowledged, and invisible rows of bulk loads."""
        with self._lock:
            if self._is_broken:
                # The data of a failed write is still in memory and must not be read as if it had been published.
                with contextlib.suppress(EnrichError):
                    self._database.close()
                self._database, self._state = self._opened(may_make=False)
                self._is_broken = False
            try:
                yield
            except ConfigError:
                raise
            except BaseException:
                self._is_broken = True
                raise

    def _show(
        self,
        changed: Sequence[TableState],
        puts: Mapping[bytes, bytes],
        deletes: Sequence[bytes] = (),
        ranges: Sequence[tuple[bytes, bytes]] = (),
        arrived: Mapping[str, Incoming] | None = None,
        replaced: Sequence[str] = (),
    ) -> None:
        """Publishes: one write, one flush, and only then the watermark and the state that acknowledge it.

        `arrived`: the new versions, by table; `replaced`: the tables whose rows were all replaced.
        """
        came = arrived or {}
        state = self._state.with_tables(changed)
        rows = state.rows(*(table.name for table in changed))
        self._database.write({**puts, **rows}, deletes, ranges)
        self._database.flush()
        self._watermark.raise_to(state.seq)
        self._state = state
        if self._mirror is not None:
            changes = {t.name: TableChange(t, came.get(t.name), is_replaced=t.name in replaced) for t in changed}
            self._mirror.follow(state.seq, changes)

    def _folded(
        self, name: str, update: TableUpdate, came: Incoming, puts: dict[bytes, bytes], deletes: list[bytes]
    ) -> TableState:
        table, spec, now = self._state.tables[name], self._specs[name], self._clock.now_ms()
        left, rows = came.versions, None
        if len(left) >= _MANY:
            table, left, rows = Columns(self._database, table, spec, now, puts, deletes).fold(left)
        if len(left):
            table = Folding(self._database, table, spec, now, puts, deletes).fold(left, rows)
        if table.key is KeyKind.CIDR:
            table = table.with_lengths(key[0] for key in came.versions.column("key").to_pylist())
        through = update.complete_through
        return replace(
            table,
            positions={**table.positions, **update.positions},
            floors=higher(table.floors, update.floors),
            complete_through=table.complete_through if through is None else through,
            notes=table.notes if update.notes is None else update.notes,
        )

    def _known(self, name: str) -> str:
        if name not in self._specs:
            raise unknown_table(name, list(self._specs))
        return name

    def _new_table_id(self) -> int:
        used = {table.table_id for table in self._state.tables.values()} | self._loading
        table_id = self._state.next_table_id
        while table_id in used or table_id == 0:
            table_id = (table_id + 1) % (1 << 16)
        self._state = replace(self._state, next_table_id=(table_id + 1) % (1 << 16))
        return table_id

    def _add_missing_tables(self) -> None:
        added = []
        for name, spec in self._specs.items():
            table = self._state.tables.get(name)
            if table is None:
                added.append(TableState(name, self._new_table_id(), spec.key))
            elif table.key is not spec.key:
                raise CorruptState(
                    f"table `{name}` was stored with {table.key} keys, but is now configured with {spec.key} keys",
                    where=str(self._directory.path),
                    next_step="rebuild the store",
                )
        if added:
            with self._writing():
                self._show(added, {})

    def _remove_change_feed(self) -> None:
        feed = (CHANGE_FEED, end_of(CHANGE_FEED))
        if next(self._database.scan(*feed), None) is not None:
            with self._writing():
                self._database.write({}, ranges=[feed])
                self._database.flush()

    def _remove_orphans(self) -> None:
        """Removes the rows of bulk loads that an earlier process did not finish."""
        used = {table.table_id for table in self._state.tables.values()}
        with self._writing():
            for table_id in table_ids(self._database.scan):
                if table_id not in used:
                    self.abandon(table_id)
