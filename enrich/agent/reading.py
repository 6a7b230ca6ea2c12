"""A reader with an eye on its agent: newest rows, how fresh they are, and a new agent when the old one is gone."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass

import pyarrow as pa

from enrich.agent.header import Header, HeaderReader
from enrich.agent.leases import grandparent
from enrich.agent.memory_use import reader_sizes
from enrich.agent.place import place_of
from enrich.agent.requests import REFRESH, SUSPECT, ask
from enrich.agent.spawn import ensure_agent, living
from enrich.agent.tables import all_tables
from enrich.config import Pipeline
from enrich.config.memory_shares import memory_shares
from enrich.errors import CorruptState, Retryable, Unreachable
from stores.answers import unknown_table
from stores.freshness import ViewWrapper
from stores.protocol import Quarantined, TableSpec
from stores.rocks import QuarantineState, RocksReader
from stores.rocks.view import RocksTable
from stores.rocks.whole import WholeTable
from stores.table import Found, Offsets, RowVersion, Seq

_REOPEN_S = 10


@dataclass(frozen=True)
class FreshView(ViewWrapper):
    """A view whose complete_through is the agent's newest, which moves on although no row changes."""

    view: RocksTable
    through: int | None
    suspect: Callable[[], None]
    """Tells the agent that the store is damaged, so that it looks and makes it anew."""

    @property
    def complete_through(self) -> int | None:
        return self.through

    def lookup(
        self,
        keys: pa.Array,
        columns: Sequence[str],
        *,
        as_of: pa.Array | None = None,
        pin: Offsets | None = None,
    ) -> Found:
        with self._telling():
            return self.view.lookup(keys, columns, as_of=as_of, pin=pin)

    def scan(self, prefix: bytes = b"") -> Iterator[RowVersion]:
        with self._telling():
            yield from self.view.scan(prefix)

    def versions(self, key: bytes) -> Sequence[RowVersion]:
        with self._telling():
            return self.view.versions(key)

    @contextmanager
    def _telling(self) -> Iterator[None]:
        try:
            yield
        except CorruptState:
            self.suspect()
            raise

    @property
    def quarantine(self) -> QuarantineState:
        return self.view.quarantine

    def quarantined(self) -> Iterator[Quarantined]:
        return self.view.quarantined()

    def whole(self) -> WholeTable:
        return self.view.whole()


@dataclass(frozen=True)
class AgentSnapshot:
    """All tables at one seq, with what the agent said of them before the snapshot was taken."""

    seq: Seq
    header: Header
    views: Mapping[str, FreshView]

    def table(self, name: str) -> FreshView:
        """Raises Retryable while the table is loaded for the first time, or anew after damage: it has no rows yet, and
        every answer would be a miss."""
        if name not in self.views:
            raise unknown_table(name, list(self.views))
        if not self.views[name].positions:
            reason = self.header.tables[name].reason
            raise Retryable(f"table `{name}` is not loaded yet: {reason}", next_step="wait until it is ready")
        return self.views[name]


class AgentReader:
    """One worker's reader. Starts the agent when there is none."""

    def __init__(self, pipeline: Pipeline, *, holder: Callable[[], int] = grandparent) -> None:
        """`holder` says which process needs the agent: the executor, or a command itself."""
        self._pipeline = pipeline
        self._place = place_of(pipeline)
        self._holder = holder
        self._header: HeaderReader | None = None
        self._specs = {name: table.spec for name, table in all_tables(pipeline).items()}
        self._reader: RocksReader | None = None

    @property
    def specs(self) -> Mapping[str, TableSpec]:
        return self._specs

    def header(self) -> Header:
        """What the agent says now; of a new one when the old one is gone."""
        if self._header is not None:
            header = None if self._header.is_replaced() else living(self._header)
            if header is not None:
                return header
            self._header.close()
            self._header = None
        header = ensure_agent(self._pipeline, holder=self._holder)
        # Whoever deletes the directory just now makes the next call look again.
        with suppress(FileNotFoundError):
            self._header = HeaderReader(self._place.header)
        return header

    def refresh(self) -> None:
        """Asks the agent to find out now how fresh the tables are, and not in its next round."""
        self._leave_word(REFRESH)

    def suspect(self) -> None:
        """Tells the agent that the store is damaged."""
        self._leave_word(SUSPECT)

    def snapshot(self) -> AgentSnapshot:
        """The newest publication. What the header said before it was taken holds for it as well."""
        end = time.monotonic() + _REOPEN_S
        while True:
            header = self.header()
            try:
                snapshot = self._open().snapshot()
                if snapshot.seq.store != header.store_id:
                    raise Retryable("the store was made anew, and its agent has not spoken yet")
            except (Retryable, CorruptState) as error:
                # A new agent is making a new store, or has just made it: the old reader is of no use any more.
                self._close_rows()
                if isinstance(error, CorruptState):
                    self.suspect()
                if time.monotonic() > end:
                    raise
                time.sleep(0.02)
            else:
                break
        views = {
            name: FreshView(snapshot.table(name), header.tables[name].complete_through, self.suspect)
            for name in self._specs
        }
        return AgentSnapshot(snapshot.seq, header, views)

    def wait_until_ready(
        self,
        tables: Sequence[str] | None = None,
        *,
        deadline_s: float,
        tell: Callable[[Header], None] = lambda _: None,
    ) -> AgentSnapshot:
        """The first snapshot of which these tables (all, unless named) are ready. Raises Unreachable, with the reasons,
        at the deadline."""
        wanted = self._specs if tables is None else tables
        end = time.monotonic() + deadline_s
        while True:
            snapshot = self.snapshot()
            states = snapshot.header.tables
            tell(snapshot.header)
            waiting = {name: states[name].reason for name in wanted if not states[name].ready}
            if not waiting:
                return snapshot
            if time.monotonic() > end:
                reasons = "; ".join(f"table {name}: {reason}" for name, reason in waiting.items())
                raise Unreachable(
                    f"not ready within {deadline_s:g} s: {reasons}",
                    where=str(self._place.folder),
                    next_step="see `enrich agent status`",
                )
            time.sleep(0.02)

    def close(self) -> None:
        self._close_rows()
        if self._header is not None:
            self._header.close()
            self._header = None

    def _close_rows(self) -> None:
        if self._reader is not None:
            self._reader.close()
            self._reader = None

    def _leave_word(self, errand: str) -> None:
        # An agent that does not answer is about to be replaced, and the next one looks by itself.
        with suppress(Unreachable):
            ask(self._place.folder, "POST", errand)

    def _open(self) -> RocksReader:
        if self._reader is None:
            sizes = reader_sizes(memory_shares(self._pipeline.memory))
            self._reader = RocksReader(self._place.rows, self._specs, sizes=sizes)
        return self._reader
