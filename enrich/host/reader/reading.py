"""A reader with an eye on its agent: newest rows, how fresh they are, and a new agent when the old one is gone."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import pyarrow as pa

from enrich.base.errors import CorruptState, Retryable, Unreachable
from enrich.config import Access, Pipeline
from enrich.config.sections.host.memory_shares import memory_shares
from enrich.host.ipc.header import Header, HeaderReader
from enrich.host.ipc.leases import grandparent
from enrich.host.ipc.requests import REFRESH, SUSPECT, SUSPECT_SEGMENTS, ask
from enrich.host.ipc.store_paths import paths_of
from enrich.host.memory_use import reader_sizes
from enrich.host.reader.schemas import host_schemas
from enrich.host.reader.segments import SegmentsHold
from enrich.host.reader.spawn import ensure_agent, living
from enrich.host.tables import all_tables
from stores.answers import unknown_table
from stores.freshness import ViewWrapper
from stores.protocol import Quarantined, TableSpec, TableView
from stores.rocks import QuarantineState, RocksReader
from stores.rocks.read.reader import RocksSnapshot
from stores.rocks.read.view import RocksTable
from stores.rocks.read.whole import WholeTable
from stores.table import Found, Offsets, RowVersion, Seq

if TYPE_CHECKING:
    from stores.segments import SegmentsSnapshot

_REOPEN_S = 30
"""How long a new agent may take to make its store, on a host that has much to do; otherwise a task would fail."""
_ASK_BROKERS_S = 5.0
"""How long a table may keep its user waiting before the brokers are asked whether they can be reached at all."""
_TOGETHER_S = 0.1
"""How long a snapshot waits for segments to come as far as RocksDB, or the other way round."""


@dataclass(frozen=True)
class FreshView(ViewWrapper):
    """A view whose complete_through is the agent's newest, which moves on although no row changes."""

    view: TableView
    through: int | None
    suspect: Callable[[], None]
    """Tells the agent that what answers is damaged, so that it looks and makes it anew."""
    raw: Callable[[], RocksTable]
    """The table's rows as they came, as of this seq or a later one."""

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
            yield from self.raw().scan(prefix)

    def versions(self, key: bytes) -> Sequence[RowVersion]:
        with self._telling():
            return self.raw().versions(key)

    @contextmanager
    def _telling(self) -> Iterator[None]:
        try:
            yield
        except CorruptState:
            self.suspect()
            raise

    @property
    def quarantine(self) -> QuarantineState:
        return self.raw().quarantine

    def quarantined(self) -> Iterator[Quarantined]:
        return self.raw().quarantined()

    def whole(self) -> WholeTable:
        return self.raw().whole()


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
        # A source without rows is no table that is still to come: it is ready, and has none.
        if not self.views[name].positions and not self.header.tables[name].ready:
            reason = self.header.tables[name].reason
            raise Retryable(f"table `{name}` is not loaded yet: {reason}", next_step="wait until it is ready")
        return self.views[name]


class AgentReader:
    """One worker's reader. Starts the agent when there is none.

    Segments answer for the tables that have them, RocksDB for the others. Both at one seq: where segments have not
    come as far as RocksDB, that answers for all.
    """

    def __init__(
        self, pipeline: Pipeline, *, holder: Callable[[], int] = grandparent, tables: Sequence[str] | None = None
    ) -> None:
        """`holder` says which process needs the agent: the executor, or a command itself. `tables`: those that are
        looked up; without it, all."""
        self._pipeline = pipeline
        self._paths = paths_of(pipeline)
        self._holder = holder
        self._header: HeaderReader | None = None
        # Many readers, and one that asks the registry.
        schemas = host_schemas(pipeline, holder=holder)
        self._specs = {name: table.spec for name, table in all_tables(pipeline, schemas).items()}
        self._tables = tuple(self._specs) if tables is None else tuple(tables)
        self._rows: RocksReader | None = None
        mapped = {name: self._specs[name] for name in self._tables if self._may_be_mapped(name)}
        self._segments = SegmentsHold(self._paths.segments, mapped, pipeline.state_dir)
        self._seen: Seq | None = None
        self._stood_at: Seq | None = None
        """Where segments stood when they were waited for in vain."""

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
            self._header = HeaderReader(self._paths.header)
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
                return self._snapshot(header)
            except (Retryable, CorruptState) as error:
                # A new agent is making a new store, or has just made it: the old reader is of no use any more.
                self._close_rows()
                if isinstance(error, CorruptState):
                    self.suspect()
                if time.monotonic() > end:
                    raise
                time.sleep(0.02)

    def wait_until_ready(
        self,
        tables: Sequence[str] | None = None,
        *,
        deadline_s: float,
        tell: Callable[[Header], None] = lambda _: None,
    ) -> AgentSnapshot:
        """The first snapshot of which these tables (all, unless named) are ready. Raises Unreachable, with the reasons,
        at the deadline, and long before it where no broker can be reached (or ConfigError, where they refuse us)."""
        wanted = self._tables if tables is None else tables
        asked = time.monotonic()
        end = asked + deadline_s
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
                    where=str(self._paths.folder),
                    next_step="see `enrich agent status`",
                )
            # The agent may say so too, but goes on trying, and its words may be of a moment that is over.
            if time.monotonic() - asked > _ASK_BROKERS_S and any(self._has_topic(name) for name in waiting):
                self._require_brokers()
                asked = time.monotonic()
            time.sleep(0.02)

    def close(self) -> None:
        self._close_rows()
        self._segments.close()
        if self._header is not None:
            self._header.close()
            self._header = None

    def _snapshot(self, header: Header) -> AgentSnapshot:
        spoken = Seq(header.store_id, header.generation, header.counter)
        segments = self._segments.newest()
        if segments is not None and self._is_enough(segments, spoken):
            self._close_rows()  # nothing of it is needed for look-ups, and it takes memory
            return self._of(header, segments.seq, segments, None)
        rows = self._open().snapshot()
        if rows.seq.store != header.store_id:
            raise Retryable("the store was made anew, and its agent has not spoken yet")
        segments, rows = self._together(segments, rows)
        return self._of(header, rows.seq, segments, rows)

    def _is_enough(self, segments: "SegmentsSnapshot", spoken: Seq) -> bool:
        """Whether all tables have segments, and these are as new as anything that was said or answered before."""
        if segments.seq.store != spoken.store or not all(segments.has(name) for name in self._tables):
            return False
        seen = self._seen if self._seen is not None and self._seen.store == spoken.store else spoken
        return segments.seq >= max(spoken, seen)

    def _together(
        self, segments: "SegmentsSnapshot | None", rows: RocksSnapshot
    ) -> "tuple[SegmentsSnapshot | None, RocksSnapshot]":
        """Both at one seq. They meet within a publication, unless segments are not written now, as before the agent has
        opened them: nobody waits twice for those that do not move."""
        end = time.monotonic() + _TOGETHER_S
        while segments is not None and segments.seq != rows.seq:
            if segments.seq.store != rows.seq.store or segments.seq == self._stood_at:
                return None, rows
            if time.monotonic() > end:
                self._stood_at = segments.seq
                return None, rows
            if segments.seq > rows.seq:
                rows = self._open().snapshot()
            else:
                time.sleep(0.001)
                segments = self._segments.newest()
        return segments, rows

    def _of(
        self, header: Header, seq: Seq, segments: "SegmentsSnapshot | None", rows: RocksSnapshot | None
    ) -> AgentSnapshot:
        self._seen = seq
        taken = rows

        def raw(name: str) -> RocksTable:
            nonlocal taken
            taken = taken or self._open().snapshot()
            return taken.table(name)

        views = {}
        for name in self._tables:
            through, its_raw = header.tables[name].complete_through, partial(raw, name)
            if segments is not None and segments.has(name):
                views[name] = FreshView(segments.table(name), through, self._suspect_segments, its_raw)
            else:
                views[name] = FreshView(raw(name), through, self.suspect, its_raw)
        return AgentSnapshot(seq, header, views)

    def _has_topic(self, name: str) -> bool:
        return self._pipeline.tables[name].topic is not None

    def _require_brokers(self) -> None:
        # Here: a worker reads without a Kafka client, which it would load at its start.
        from enrich.config import Role
        from enrich.kafka import librdkafka_settings, trouble_with

        trouble = trouble_with(librdkafka_settings(self._pipeline.kafka, Role.common))
        if trouble is not None:
            raise trouble.error()

    def _may_be_mapped(self, name: str) -> bool:
        return self._pipeline.tables[name].access is not Access.rocks

    def _suspect_segments(self) -> None:
        self._leave_word(SUSPECT_SEGMENTS)

    def _close_rows(self) -> None:
        if self._rows is not None:
            self._rows.close()
            self._rows = None

    def _leave_word(self, errand: str) -> None:
        # An agent that does not answer is about to be replaced, and the next one looks by itself.
        with suppress(Unreachable):
            ask(self._paths.folder, "POST", errand)

    def _open(self) -> RocksReader:
        if self._rows is None:
            sizes = reader_sizes(memory_shares(self._pipeline.memory))
            self._rows = RocksReader(self._paths.rows, self._specs, sizes=sizes)
        return self._rows


class RowsReader(AgentReader):
    """For commands that want rows as they came, all of them at the seq that the snapshot names: it reads RocksDB."""

    def _may_be_mapped(self, name: str) -> bool:  # noqa: ARG002 - whatever the table
        return False
