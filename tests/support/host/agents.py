"""An agent whose loop a test turns by hand, over restarts, with a reader of its store beside it."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path

import pyarrow as pa
from confluent_kafka import TopicPartition

from enrich.codecs import JsonDecoder
from enrich.host.follow.topic_keeper import TopicKeeper
from enrich.host.ipc.header import HeaderReader, HeaderWriter, TableState
from enrich.host.ipc.imports import Imports
from enrich.host.load.snapshots import HeadStarts
from enrich.host.process.agent import Agent
from enrich.host.tables import TopicTable
from enrich.kafka import Connection
from stores.clock import SystemClock
from stores.protocol import Clock, TableSpec
from stores.rocks import RocksReader, RocksStore
from stores.rocks.read.view import RocksTable
from stores.snapshots import Origin, Snapshot, export_table
from stores.table import TIMESTAMP, HistoryFloor, Offsets, Status
from tests.support.kafka.topics import Cluster
from tests.support.waiting import wait_until

PLANS = pa.schema([pa.field("plan", pa.string())])


def plans_table(topic: str, *, name: str = "users", must_be_compacted: bool = True, history_ms: int = 0) -> TopicTable:
    """A table with one text column, `plan`."""
    spec = TableSpec(PLANS, JsonDecoder(PLANS), history_ms)
    return TopicTable(name, topic, spec, must_be_compacted=must_be_compacted)


def produce_plans(cluster: Cluster, topic: str, **plans: str | None) -> None:
    """One record a key; None is a tombstone."""
    values = {key: None if plan is None else json.dumps({"plan": plan}).encode() for key, plan in plans.items()}
    cluster.produce(topic, [(key.encode(), value) for key, value in values.items()])


class ShiftedClock:
    """The system's clock, which a test can put forward."""

    def __init__(self) -> None:
        self.ahead_ms = 0

    def now_ms(self) -> int:
        return SystemClock().now_ms() + self.ahead_ms


class AgentLife:
    """The tables of one folder. Starts with the first `start`; every start after that is a restart."""

    def __init__(
        self,
        folder: Path,
        connection: Connection,
        *tables: TopicTable,
        clock: Clock | None = None,
        head_starts: HeadStarts | None = None,
    ) -> None:
        self._head_starts = head_starts
        self._folder = folder
        self._connection = connection
        self._tables = {table.name: table for table in tables}
        self._specs = {table.name: table.spec for table in tables}
        self._clock = clock or SystemClock()
        self._running: tuple[Agent, RocksStore, HeaderWriter] | None = None
        self._reader: RocksReader | None = None

    @property
    def imports(self) -> Path:
        return self._folder / "imports"

    def export(self, location: Path, table: str = "users") -> Snapshot:
        """A snapshot of the table as its readers see it."""
        if self._reader is None:
            self._reader = RocksReader(self._folder / "rows", self._specs)
        snapshot = self._reader.snapshot()
        source = snapshot.table(table).whole()
        known = self._tables[table]
        origin = Origin(
            pipeline="test",
            table=table,
            topic=known.topic,
            definition=known.definition,
            seq=snapshot.seq,
            taken_at=SystemClock().now_ms(),
            complete_through=source.state.complete_through or 0,
            notes=source.state.notes,
        )
        return export_table(source, origin, location)

    def start(self) -> "AgentLife":
        store = RocksStore(self._folder / "rows", self._specs, self._clock)
        header = HeaderWriter(self._folder / "header")
        agent = Agent(
            store,
            self._tables,
            self._connection,
            header,
            self._clock,
            head_starts=self._head_starts,
            imports=Imports(self.imports),
        )
        self._running = agent, store, header
        return self

    def stop(self) -> None:
        if self._reader is not None:
            self._reader.close()
            self._reader = None
        if self._running is not None:
            for part in self._running:
                part.close()
            self._running = None

    def refresh(self) -> None:
        """Leaves word that somebody wants complete_through to move on now."""
        assert self._running is not None
        self._running[0].refresh()

    def states(self) -> Mapping[str, TableState]:
        """What the agent says of its tables after one more turn of its loop."""
        assert self._running is not None
        self._running[0].step()
        header = HeaderReader(self._folder / "header").read()
        assert header is not None
        return header.tables

    def state(self, table: str = "users") -> TableState:
        return self.states()[table]

    def until(self, condition: Callable[[TableState], object], what: str, table: str = "users") -> TableState:
        """Turns the loop until the table is as wanted."""

        def turned() -> TableState | None:
            state = self.state(table)
            return state if condition(state) else None

        found = wait_until(turned, what=what)
        assert found is not None
        return found

    def until_complete(self, table: str = "users") -> TableState:
        """Turns the loop until everything that is in the topic now is in the table."""
        now = self._clock.now_ms()
        return self.until(lambda state: (state.complete_through or 0) > now, "completeness", table)

    def until_saved(self, table: str = "users") -> None:
        """Turns the loop until the store, too, says that the table is complete up to now: what a restart finds."""
        assert self._running is not None
        store, now = self._running[1], self._clock.now_ms()
        self.until(lambda _: (store.tables[table].complete_through or 0) > now, "completeness in the store", table)

    def read_again(self, topic: str, partition: int) -> None:
        """Sends the agent's consumer back to the start, as another table of the topic does that is behind."""
        assert self._running is not None
        self._running[0]._tailer.follow("users", topic, {partition: 0})

    def silence(self, topic: str) -> None:
        """Makes the agent's client return nothing of the topic any more, without an error."""
        assert self._running is not None
        tailer = self._running[0]._tailer
        tailer._consumer.pause([TopicPartition(topic, partition) for partition in tailer.followed[topic]])

    def replace_client(self) -> None:
        """As the agent does when its client returns nothing for long."""
        assert self._running is not None
        self._running[0]._tailer._replace()

    def load_again(self, table: str) -> None:
        """Makes the table's keeper load it anew, as when a person asks for it."""
        self.keeper(table).load_anew()

    def load_of(self, table: str) -> int:
        """The number of the load that its rows come from."""
        return self._view(table).whole().state.table_id

    def keeper(self, table: str) -> TopicKeeper:
        assert self._running is not None
        return self._running[0]._topic_keepers[table]

    def verify(self) -> None:
        """Raises CorruptState when a table does not hold what its publications said."""
        reader = RocksReader(self._folder / "rows", self._specs)
        reader.verify()
        reader.close()

    def rows(self, table: str = "users") -> dict[str, str]:
        """Key -> plan of all living rows."""
        living = [version.key.decode() for version in self._view(table).scan() if version.value is not None]
        return {key: plan for key, (_, plan) in zip(living, self.answers(*living, table=table), strict=True) if plan}

    def answers(
        self, *keys: str, table: str = "users", as_of: int | None = None, pin: Offsets | None = None
    ) -> list[tuple[Status, str | None]]:
        """Status and plan of each key."""
        times = None if as_of is None else pa.array([as_of] * len(keys), TIMESTAMP)
        found = self._view(table).lookup(pa.array(keys, pa.string()), ["plan"], as_of=times, pin=pin)
        plans = [None if value is None else value["plan"] for value in found.values.to_pylist()]
        return list(zip(map(Status, found.status.to_pylist()), plans, strict=True))

    def versions(self, key: str, table: str = "users") -> list[str | None]:
        """The plans that a key had, as far as they are kept, the oldest first; None is a tombstone."""
        kept = self._view(table).versions(key.encode())
        return [None if version.value is None else json.loads(version.value)["plan"] for version in kept]

    def floors(self, table: str = "users") -> Mapping[int, HistoryFloor]:
        return self._view(table).floors

    def buried(self, table: str = "users") -> Mapping[int, int]:
        return self._view(table).whole().state.buried

    def _view(self, table: str) -> RocksTable:
        if self._reader is None:
            self._reader = RocksReader(self._folder / "rows", self._specs)
        return self._reader.snapshot().table(table)
