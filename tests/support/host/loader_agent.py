"""An agent in the test's own process, for tables with a loader: stepped by the test, its time moved by the test."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa

from enrich.config import load_text
from enrich.host.ipc.header import HeaderReader, HeaderWriter, TableState
from enrich.host.process.agent import Agent
from enrich.host.tables import all_tables
from stores.rocks import RocksReader, RocksStore
from stores.table import RowVersion
from tests.support.clock import ManualClock
from tests.support.waiting import wait_until

REFRESH_MS = 120_000
"""The default, which these tables have."""

_HEAD = 'name: test\nkafka: {bootstrap_servers: "127.0.0.1:1"}\n'
"""Nothing listens there: tables with a loader need no brokers."""


class LoaderAgent:
    """One life of an agent over the store in `folder`."""

    def __init__(self, folder: Path, table: str, clock: ManualClock, held: ExitStack) -> None:
        """`table`: its section of the configuration file, in one line; its name is `limits`."""
        pipeline = load_text(f"{_HEAD}state_dir: {folder}\ntables:\n  limits: {table}\n")
        tables = all_tables(pipeline)
        specs = {name: each.spec for name, each in tables.items()}
        self.clock = clock
        store = RocksStore(folder / "rows", specs, clock)
        held.callback(store.close)
        header = HeaderWriter(folder / "header")
        held.callback(header.close)
        self.agent = Agent(store, tables, {"bootstrap.servers": "127.0.0.1:1"}, header, clock)
        held.callback(self.agent.close)
        self._header = HeaderReader(folder / "header")
        held.callback(self._header.close)
        self._reader = RocksReader(folder / "rows", specs)
        held.callback(self._reader.close)
        self.columns = specs["limits"].columns

    def state(self) -> TableState:
        """After one turn of the agent's loop."""
        self.agent.step()
        header = self._header.read()
        assert header is not None
        return header.tables["limits"]

    def told_once_more(self) -> TableState:
        """After as many turns as it takes until readers are told again."""
        told = self.agent.header
        return self.until(lambda _: self.agent.header is not told, "the next header")

    def until(self, condition: Callable[[TableState], bool], what: str, *, passing_ms: int = 0) -> TableState:
        """`passing_ms`: how much time passes with each look."""

        def met() -> TableState | None:
            self.clock.advance(passing_ms)
            state = self.state()
            return state if condition(state) else None

        state = wait_until(met, what=what)
        assert state is not None
        return state

    def until_ready(self) -> TableState:
        return self.until(lambda state: state.ready, "readiness")

    def refresh(self) -> TableState:
        """Time passes, and the source is read again, successfully."""
        before = self.state().complete_through or 0
        self.clock.advance(REFRESH_MS)
        return self.until(lambda state: (state.complete_through or 0) > before, "the refresh")

    def try_refresh(self, reason: str) -> TableState:
        """Time passes, and reading the source again brings this reason."""
        self.clock.advance(REFRESH_MS)
        return self.until(lambda state: reason in (state.reason or ""), f"the reason {reason!r}")

    def rows(self) -> Mapping[str, Any]:
        """What readers find by looking up each key that is not deleted: its row, or of one column its value."""
        versions = self.versions()
        keys = [key for key, version in versions.items() if version.value is not None]
        probes = [key.split("/")[0] for key in keys]  # of a network its first address
        found = self._reader.snapshot().table("limits").lookup(pa.array(probes, pa.string()), self.columns.names)
        rows = found.values.to_pylist()
        return {key: row if len(row) > 1 else next(iter(row.values())) for key, row in zip(keys, rows, strict=True)}

    def versions(self) -> Mapping[str, RowVersion]:
        """The newest version of each key, tombstones too."""
        scanned = self._reader.snapshot().table("limits").scan()
        return {version.key.decode(): version for version in scanned}

    def offsets(self) -> Mapping[str, int]:
        return {key: version.offset for key, version in self.versions().items()}


@contextmanager
def loader_agent(folder: Path, table: str, clock: ManualClock | None = None) -> Iterator[LoaderAgent]:
    with ExitStack() as held:
        yield LoaderAgent(folder, table, clock or ManualClock(), held)
