"""A reader with an eye on its agent: newest rows, how fresh they are, and a new agent when the old one is gone."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from enrich.agent.header import Header
from enrich.agent.leases import grandparent
from enrich.agent.place import place_of
from enrich.agent.spawn import ensure_agent
from enrich.agent.tables import topic_tables
from enrich.config import Pipeline
from enrich.errors import Retryable, Unreachable
from stores.answers import unknown_table
from stores.freshness import ViewWrapper
from stores.protocol import Quarantined, TableSpec
from stores.rocks import QuarantineState, RocksReader
from stores.rocks.view import RocksTable
from stores.table import RowVersion, Seq

_REOPEN_S = 10


@dataclass(frozen=True)
class FreshView(ViewWrapper):
    """A view whose complete_through is the agent's newest, which moves on although no row changes."""

    view: RocksTable
    through: int | None

    @property
    def complete_through(self) -> int | None:
        return self.through

    def scan(self, prefix: bytes = b"") -> Iterator[RowVersion]:
        return self.view.scan(prefix)

    def versions(self, key: bytes) -> Sequence[RowVersion]:
        return self.view.versions(key)

    @property
    def quarantine(self) -> QuarantineState:
        return self.view.quarantine

    def quarantined(self) -> Iterator[Quarantined]:
        return self.view.quarantined()


@dataclass(frozen=True)
class AgentSnapshot:
    """All tables at one seq, with what the agent said of them before the snapshot was taken."""

    seq: Seq
    header: Header
    views: Mapping[str, FreshView]

    def table(self, name: str) -> FreshView:
        if name not in self.views:
            raise unknown_table(name, list(self.views))
        return self.views[name]


class AgentReader:
    """One worker's reader. Starts the agent when there is none."""

    def __init__(self, pipeline: Pipeline, *, holder: Callable[[], int] = grandparent) -> None:
        """`holder` says which process needs the agent: the executor, or a command itself."""
        self._pipeline = pipeline
        self._holder = holder
        self._specs = {name: table.spec for name, table in topic_tables(pipeline).items()}
        self._reader: RocksReader | None = None

    @property
    def specs(self) -> Mapping[str, TableSpec]:
        return self._specs

    def header(self) -> Header:
        """What the agent says now; of a new one when the old one is gone."""
        return ensure_agent(self._pipeline, holder=self._holder)

    def snapshot(self) -> AgentSnapshot:
        """The newest publication. What the header said before it was taken holds for it as well."""
        end = time.monotonic() + _REOPEN_S
        while True:
            header = self.header()
            try:
                snapshot = self._open().snapshot()
            except Retryable:
                # A new agent is making a new store, or has just made it: the old reader is of no use any more.
                self.close()
                if time.monotonic() > end:
                    raise
                time.sleep(0.02)
            else:
                break
        views = {name: FreshView(snapshot.table(name), header.tables[name].complete_through) for name in self._specs}
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
            header = self.header()
            tell(header)
            waiting = {name: header.tables[name].reason for name in wanted if not header.tables[name].ready}
            if not waiting:
                return self.snapshot()
            if time.monotonic() > end:
                reasons = "; ".join(f"table {name}: {reason}" for name, reason in waiting.items())
                raise Unreachable(
                    f"not ready within {deadline_s:g} s: {reasons}",
                    where=str(place_of(self._pipeline).folder),
                    next_step="see `enrich agent status`",
                )
            time.sleep(0.02)

    def close(self) -> None:
        if self._reader is not None:
            self._reader.close()
            self._reader = None

    def _open(self) -> RocksReader:
        if self._reader is None:
            self._reader = RocksReader(place_of(self._pipeline).rows, self._specs)
        return self._reader
