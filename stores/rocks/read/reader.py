"""A worker's view of a store: a secondary instance, which changes only when `catch_up` is called."""

import contextlib
import os
import weakref
from collections.abc import Mapping
from pathlib import Path

from stores.answers import superseded_snapshot, unknown_table
from stores.errors import CorruptState, EnrichError, Fatal, Retryable
from stores.protocol import TableSpec
from stores.rocks.database import Database, Sizes
from stores.rocks.directory import Directory, read_watermark
from stores.rocks.read.verify import Verified, verify
from stores.rocks.read.view import RocksTable
from stores.rocks.state import StoreState, read_state
from stores.table import Seq

_ATTEMPTS = 5


class RocksReader:
    """Opens after fork; for one thread. Its snapshots never go back."""

    def __init__(self, directory: Path, tables: Mapping[str, TableSpec], *, sizes: Sizes | None = None) -> None:
        """Raises Retryable while there is no store, CorruptState for a damaged one."""
        self._directory = Directory(directory)
        self._specs = dict(tables)
        self._sizes = sizes or Sizes(block_cache=8 << 20, write_buffer=1 << 20)
        self._process = os.getpid()
        self._seen = read_watermark(directory)
        own = self._directory.new_reader()
        self._own_path = own.path
        self._clean_up = weakref.finalize(self, own.remove)
        self._database: Database | None = None
        self._taken = 0
        try:
            self._state = self._newest()
        except BaseException:
            self.close()
            raise

    def snapshot(self) -> "RocksSnapshot":
        """The newest publication. The reader's snapshots before it refuse from now on."""
        self._require_own_process()
        self._taken += 1
        self._state = self._newest()
        self._seen = self._state.seq
        return RocksSnapshot(self, self._taken, self._state)

    def verify(self) -> Mapping[str, Verified]:
        """Reads all rows of the newest publication. Raises CorruptState if a table's rows are not what they should be.

        It blocks nobody: the agent runs it in the background after a start.
        """
        state = self.snapshot()._state
        return {name: verify(self._open(), state.tables[name]) for name in self._specs}

    def close(self) -> None:
        self._close_database()
        self._clean_up()

    def require_current(self, taken: int) -> Database:
        """The database, as long as it is still at the snapshot's seq."""
        if taken != self._taken:
            raise superseded_snapshot()
        self._require_own_process()
        return self._open()

    def table(self, name: str, state: StoreState, taken: int) -> RocksTable:
        if name not in self._specs or name not in state.tables:
            raise unknown_table(name, list(self._specs))
        return RocksTable(self._specs[name], state.tables[name], lambda: self.require_current(taken))

    def _newest(self) -> StoreState:
        """Catches up. If the state went back or is behind what was acknowledged, the database is opened again, and only
        then taken for damaged."""
        attempts = 0
        while True:
            attempts += 1
            # Read it before catching up: the writer flushes first, so an undamaged database is never behind it.
            acknowledged = read_watermark(self._directory.path)
            if acknowledged.store != self._seen.store:
                raise Retryable(
                    "the store was replaced by another", where=str(self._directory.path),
                    next_step="open a new reader once its agent says that it is ready",
                )  # fmt: skip
            try:
                database = self._open()
                database.catch_up()
                state = read_state(database)
            except (CorruptState, Retryable) as error:
                # A file that the primary removed after naming it, before we opened it: looks like damage, but passes.
                problem = error
            else:
                if state.seq.store == acknowledged.store and state.seq >= max(self._seen, acknowledged):
                    return state
                problem = _went_back(state.seq, max(self._seen, acknowledged), self._directory.path)
            self._close_database()
            if attempts == _ATTEMPTS:
                raise problem

    def _open(self) -> Database:
        if self._database is None:
            self._database = Database.secondary(self._directory.database, self._own_path, self._sizes)
        return self._database

    def _close_database(self) -> None:
        database, self._database = self._database, None
        if database is not None:
            with contextlib.suppress(EnrichError):
                database.close()

    def _require_own_process(self) -> None:
        if os.getpid() != self._process:
            raise Fatal("a reader cannot be used in a forked process", next_step="open it after the fork")


def _went_back(found: Seq, expected: Seq, path: Path) -> CorruptState:
    return CorruptState(
        f"the store is at {found.counter}, but {expected.counter} was acknowledged",
        where=str(path),
        next_step="rebuild it from its topics",
    )


class RocksSnapshot:
    """All tables at one seq, until the reader takes the next."""

    def __init__(self, reader: RocksReader, taken: int, state: StoreState) -> None:
        self._reader = reader
        self._taken = taken
        self._state = state

    @property
    def seq(self) -> Seq:
        return self._state.seq

    @property
    def quarantined(self) -> int:
        """How many records the quarantines of all tables keep."""
        return sum(table.quarantine.kept_records for table in self._state.tables.values())

    def table(self, name: str) -> RocksTable:
        return self._reader.table(name, self._state, self._taken)
