"""Reads the newest rows and their freshness, watches the agent, and starts a new one if the old one is gone."""

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from enrich.base.errors import ConfigError, CorruptState, Retryable, Unreachable
from enrich.config import Access, Pipeline
from enrich.config.sections.host.memory_shares import memory_shares
from enrich.host.ipc.header import Header
from enrich.host.ipc.leases import grandparent
from enrich.host.ipc.requests import DEMAND, REFRESH, SUSPECT, SUSPECT_SEGMENTS, WAIT, ask
from enrich.host.ipc.store_paths import paths_of
from enrich.host.memory_use import reader_sizes
from enrich.host.on_demand import wire
from enrich.host.reader.demand import Demands
from enrich.host.reader.schemas import host_schemas
from enrich.host.reader.segments import SegmentsHold
from enrich.host.reader.spawn import AgentWatch, ensure_agent
from enrich.host.reader.views import FreshView, OnDemandView
from enrich.host.tables import OnDemandTable, all_tables
from stores.answers import unknown_table
from stores.protocol import TableSpec
from stores.rocks import RocksReader
from stores.rocks.read.reader import RocksSnapshot
from stores.rocks.read.view import RocksTable
from stores.table import Seq

if TYPE_CHECKING:
    from stores.segments import SegmentsSnapshot

_REOPEN_S = 30
"""How long a new agent may take to make its store. Long enough for a busy host: otherwise a task would fail."""
_ASK_BROKERS_S = 5.0
"""After waiting so long for a table, the reader itself asks whether the brokers can be reached and have its topic."""
_AGAIN_S = 0.1
_ANSWERS_WITHIN_S = 5.0
_ALIGN_S = 0.1
"""How long a snapshot waits for segments and RocksDB to reach the same seq."""


@dataclass(frozen=True)
class AgentSnapshot:
    """All tables at one seq, with the header that was read before the snapshot was taken."""

    seq: Seq
    header: Header
    views: Mapping[str, FreshView]

    def table(self, name: str) -> FreshView:
        """Raises Retryable while the table is loaded for the first time, or anew after damage: it has no rows yet, and
        every answer would be a wrong miss."""
        if name not in self.views:
            raise unknown_table(name, list(self.views))
        # A table whose source is empty has no positions either, but it is ready.
        if not self.views[name].positions and not self.header.tables[name].ready:
            reason = self.header.tables[name].reason
            raise Retryable(f"table `{name}` is not loaded yet: {reason}", next_step="wait until it is ready")
        return self.views[name]


class AgentReader:
    """One worker's reader. Starts the agent when there is none.

    Segments answer for the tables that have them, RocksDB for the others, both at one seq. If segments have not
    reached the seq of RocksDB, RocksDB answers for all tables.
    """

    def __init__(
        self, pipeline: Pipeline, *, holder: Callable[[], int] = grandparent, tables: Sequence[str] | None = None
    ) -> None:
        """`holder` returns the id of the process that needs the agent: the executor, or the command itself. `tables`:
        the tables to look up; all by default."""
        self._pipeline = pipeline
        self._paths = paths_of(pipeline)
        self._holder = holder
        self._agent: AgentWatch | None = None
        # Only the agent asks the registry, for all readers.
        schemas = host_schemas(pipeline, holder=holder)
        known = all_tables(pipeline, schemas)
        self._specs = {name: table.spec for name, table in known.items()}
        self._tables = tuple(self._specs) if tables is None else tuple(tables)
        on_demand = [table for table in known.values() if isinstance(table, OnDemandTable)]
        self._refresh_ms = {table.name: table.refresh_ms for table in on_demand}
        """Of tables on demand."""
        self._demands = Demands(self._tell)
        self._rows: RocksReader | None = None
        mapped = {name: self._specs[name] for name in self._tables if self._may_be_mapped(name)}
        self._segments = SegmentsHold(self._paths.segments, mapped, pipeline.state_dir)
        self._seen: Seq | None = None
        self._stalled_at: Seq | None = None
        """The segments' seq when waiting for them timed out."""

    @property
    def specs(self) -> Mapping[str, TableSpec]:
        return self._specs

    def header(self) -> Header:
        """The agent's current header. Starts a new agent if the old one is gone."""
        if self._agent is not None:
            header = self._agent.header()
            if header is not None:
                return header
            self._agent.close()
            self._agent = None
        header = ensure_agent(self._pipeline, holder=self._holder)
        self._demands.forget()
        # If the directory is deleted right now, the next call tries again.
        with suppress(FileNotFoundError):
            self._agent = AgentWatch(self._paths)
        return header

    def refresh(self) -> None:
        """Asks the agent to find out now how fresh the tables are, instead of in its next round."""
        self._post(REFRESH)

    def suspect(self) -> None:
        """Reports to the agent that the store is damaged."""
        self._post(SUSPECT)

    def load(self, table: str, keys: Sequence[bytes], *, patience_s: float) -> None:
        """Waits until the next snapshot has these keys of a table on demand, but for those that have no row."""
        self.reach(self.loaded(table, keys, patience_s, self.header))

    def loaded(
        self, table: str, keys: Sequence[bytes], patience_s: float, look: Callable[[], object] = lambda: None
    ) -> Seq | None:
        """The same for any thread: returns what the next snapshot has to `reach`, or None if it took too long. `look`:
        before each attempt."""
        end = time.monotonic() + patience_s
        while (left_s := end - time.monotonic()) > 0:
            look()
            asked = wire.waiting_sent(keys, left_s)
            try:
                answer = ask(self._paths.folder, "POST", WAIT + table, asked, patience_s=left_s + _ANSWERS_WITHIN_S)
            except Unreachable:  # another agent is starting
                time.sleep(min(_AGAIN_S, left_s))
                continue
            return wire.seq_in(answer)
        return None

    def reach(self, seq: Seq | None) -> None:
        """The next snapshot is not older."""
        if seq is not None and (self._seen is None or self._seen.store != seq.store or self._seen < seq):
            self._seen = seq

    def snapshot(self) -> AgentSnapshot:
        """The newest publication. The header was read before it was taken, so what it claims holds for it too."""
        end = time.monotonic() + _REOPEN_S
        while True:
            header = self.header()
            try:
                return self._snapshot(header)
            except (Retryable, CorruptState) as error:
                # A new agent is making a new store, or has just made it: the old reader cannot be used any more.
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
        report: Callable[[Header], None] = lambda _: None,
    ) -> AgentSnapshot:
        """The first snapshot in which these tables (all by default) are ready. Raises Unreachable, with the reasons, at
        the deadline, and long before it if no broker can be reached; ConfigError if the brokers refuse us, or if there
        is no topic of one that is waited for."""
        wanted = self._tables if tables is None else tables
        asked = time.monotonic()
        end = asked + deadline_s
        while True:
            snapshot = self.snapshot()
            states = snapshot.header.tables
            report(snapshot.header)
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
            # The agent reports this too, but it keeps trying, and its report may be out of date.
            topics = [topic for name in waiting if (topic := self._pipeline.tables[name].topic) is not None]
            if time.monotonic() - asked > _ASK_BROKERS_S and topics:
                self._require(topics)
                asked = time.monotonic()
            time.sleep(0.02)

    def close(self) -> None:
        self._demands.close()
        self._close_rows()
        self._segments.close()
        if self._agent is not None:
            self._agent.close()
            self._agent = None

    def _snapshot(self, header: Header) -> AgentSnapshot:
        announced = header.seq
        segments = self._segments.newest()
        if segments is not None and self._is_enough(segments, announced):
            self._close_rows()  # look-ups do not need RocksDB now, and an open reader takes memory
            return self._snapshot_of(header, segments.seq, segments, None)
        rows = self._open().snapshot()
        if rows.seq.store != header.store_id:
            raise Retryable("the store was rebuilt, and its agent has not written a header yet")
        segments, rows = self._aligned(segments, rows)
        return self._snapshot_of(header, rows.seq, segments, rows)

    def _is_enough(self, segments: "SegmentsSnapshot", announced: Seq) -> bool:
        """Whether all tables have segments, and these are as new as the header and as every snapshot before."""
        if segments.seq.store != announced.store or not all(segments.has(name) for name in self._tables):
            return False
        seen = self._seen if self._seen is not None and self._seen.store == announced.store else announced
        return segments.seq >= max(announced, seen)

    def _aligned(
        self, segments: "SegmentsSnapshot | None", rows: RocksSnapshot
    ) -> "tuple[SegmentsSnapshot | None, RocksSnapshot]":
        """Both at one seq. They meet within a publication, unless segments are not being written, for example because
        the agent has not opened them yet. The reader does not wait twice for segments whose seq does not change."""
        end = time.monotonic() + _ALIGN_S
        while segments is not None and segments.seq != rows.seq:
            if segments.seq.store != rows.seq.store or segments.seq == self._stalled_at:
                return None, rows
            if time.monotonic() > end:
                self._stalled_at = segments.seq
                return None, rows
            if segments.seq > rows.seq:
                rows = self._open().snapshot()
            else:
                time.sleep(0.001)
                segments = self._segments.newest()
        return segments, rows

    def _snapshot_of(
        self, header: Header, seq: Seq, segments: "SegmentsSnapshot | None", rows: RocksSnapshot | None
    ) -> AgentSnapshot:
        self._seen = seq
        taken = rows

        def raw(name: str) -> RocksTable:
            nonlocal taken
            taken = taken or self._open().snapshot()
            return taken.table(name)

        views: dict[str, FreshView] = {}
        for name in self._tables:
            through, its_raw = header.tables[name].complete_through, partial(raw, name)
            if segments is not None and segments.has(name):
                view = FreshView(segments.table(name), through, self._suspect_segments, its_raw)
            else:
                view = FreshView(raw(name), through, self.suspect, its_raw)
            refresh_ms = self._refresh_ms.get(name)
            if refresh_ms is not None:
                view = OnDemandView(view.view, through, view.suspect, its_raw, name, refresh_ms, self._demands)
            views[name] = view
        return AgentSnapshot(seq, header, views)

    def _require(self, topics: Sequence[str]) -> None:
        # Imported here, so that workers, which need no Kafka client, do not load one at their start.
        from enrich.config import Role
        from enrich.kafka import Topics, librdkafka_settings, new_admin_client, trouble_with

        connection = librdkafka_settings(self._pipeline.kafka, Role.common)
        trouble = trouble_with(connection)
        if trouble is not None:
            raise trouble.error()
        for found in Topics(new_admin_client(connection), _ASK_BROKERS_S).identities(topics).values():
            if isinstance(found, ConfigError):
                raise found

    def _may_be_mapped(self, name: str) -> bool:
        return self._pipeline.tables[name].access is not Access.rocks

    def _tell(self, table: str, keys: Sequence[bytes]) -> None:
        ask(self._paths.folder, "POST", DEMAND + table, wire.keys_sent(keys))

    def _suspect_segments(self) -> None:
        self._post(SUSPECT_SEGMENTS)

    def _close_rows(self) -> None:
        if self._rows is not None:
            self._rows.close()
            self._rows = None

    def _post(self, errand: str) -> None:
        # An agent that does not answer will be replaced, and the next one checks all this at its start.
        with suppress(Unreachable):
            ask(self._paths.folder, "POST", errand)

    def _open(self) -> RocksReader:
        if self._rows is None:
            sizes = reader_sizes(memory_shares(self._pipeline.memory))
            self._rows = RocksReader(self._paths.rows, self._specs, sizes=sizes)
        return self._rows


class RowsReader(AgentReader):
    """For commands that want raw rows, all of them at the snapshot's seq: reads RocksDB only."""

    def _may_be_mapped(self, name: str) -> bool:  # noqa: ARG002 - whatever the table
        return False
