"""The agent's work: loads what is missing, follows all topics, publishes, and tells readers how fresh it is."""

import logging
import os
import threading
from collections import Counter
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor

from enrich.agent.completeness import Completeness, Ends
from enrich.agent.header import Header, HeaderWriter, TableState
from enrich.agent.leases import Holder, pid_namespace
from enrich.agent.loading import Progress, load_table
from enrich.agent.tables import TopicTable
from enrich.agent.tailer import Tailed, Tailer
from enrich.errors import EnrichError
from enrich.kafka import Connection, Topics, new_admin_client, new_store_consumer
from enrich.kafka.records import row_versions_of
from stores.protocol import Clock, Publication, Quarantined, TableUpdate
from stores.rocks import RocksStore
from stores.table import Offsets

_log = logging.getLogger(__name__)

_BATCH_RECORDS = 10_000
_BATCH_SECONDS = 0.02
_ASK_EVERY_MS = 200
_TRY_AGAIN_MS = 1_000


class Agent:
    """One run over one store. The caller holds the store's lock and decides when it ends."""

    def __init__(
        self,
        store: RocksStore,
        tables: Mapping[str, TopicTable],
        connection: Connection,
        header: HeaderWriter,
        clock: Clock,
    ) -> None:
        self._store = store
        self._tables = tables
        self._connection = connection
        self._header = header
        self._clock = clock
        self._tailer = Tailer(new_store_consumer(connection))
        self._topics = Topics(new_admin_client(connection), deadline_s=5)
        self._completeness = {name: Completeness() for name in tables}
        self._progress: dict[str, Progress] = {}
        self._reasons: dict[str, str] = {}
        self._undecodable: Counter[str] = Counter()
        self._not_before_ms: dict[str, int] = {}
        self._loads: dict[str, Future[Publication | None]] = {}
        self._asked_at_ms = 0
        self._asking: Future[dict[str, Ends]] | None = None
        self._stopping = threading.Event()
        self._self = Holder.of(os.getpid()) or Holder(os.getpid(), 0)
        self._namespace = pid_namespace()
        self._threads = ThreadPoolExecutor(max_workers=3, thread_name_prefix="agent")

    def step(self) -> None:
        """One turn of the loop: at most a few tens of milliseconds when there is little to do."""
        self._start_loads()
        self._take_loads()
        came = self._tailer.poll(_BATCH_RECORDS, _BATCH_SECONDS)
        self._publish(came)
        self._ask_for_ends()
        self._write_header()

    def close(self) -> None:
        self._stopping.set()
        self._threads.shutdown(wait=True, cancel_futures=True)
        self._tailer.close()

    def _start_loads(self) -> None:
        for name, table in self._tables.items():
            positions = self._store.tables[name].positions
            if positions and table.topic not in self._tailer.followed:
                self._tailer.follow(table.topic, positions)
            elif not positions and name not in self._loads and self._clock.now_ms() >= self._not_before_ms.get(name, 0):
                self._loads[name] = self._threads.submit(self._load, table)

    def _load(self, table: TopicTable) -> Publication | None:
        def tell(progress: Progress) -> None:
            self._progress[table.name] = progress

        return load_table(
            self._store, table, self._connection, self._clock, tell, self._tell_undecodable, self._stopping.is_set
        )

    def _tell_undecodable(self, records: Sequence[Quarantined]) -> None:
        # Place and reason, never the bytes: those stay in the topic until they are kept in a quarantine.
        for record in records:
            self._undecodable[record.table] += 1
            place = {"table": record.table, "partition": record.partition, "offset": record.offset}
            _log.warning("a record cannot become a row", extra={**place, "reason": record.reason})

    def _take_loads(self) -> None:
        for name, load in list(self._loads.items()):
            if not load.done():
                continue
            del self._loads[name]
            self._progress.pop(name, None)
            try:
                load.result()
                self._reasons.pop(name, None)
            except EnrichError as error:
                # It is tried again a little later; what is wrong is there to be read meanwhile.
                if self._reasons.get(name) != str(error):
                    _log.warning("a load failed", extra={"table": name, "reason": str(error)})
                self._reasons[name] = str(error)
                self._not_before_ms[name] = self._clock.now_ms() + _TRY_AGAIN_MS

    def _publish(self, came: Mapping[str, Tailed]) -> None:
        updates: dict[str, TableUpdate] = {}
        for name, table in self._tables.items():
            tailed = came.get(table.topic)
            if tailed is None or name in self._loads:
                continue
            if tailed.fault is not None:
                self._reasons[name] = str(tailed.fault)
            if _moves_on(self._store.tables[name].positions, tailed.positions):
                versions, _ = row_versions_of(tailed.messages)
                updates[name] = TableUpdate(versions, tailed.positions)
        if updates:
            self._tell_undecodable(self._store.publish(updates).quarantined)

    def _ask_for_ends(self) -> None:
        """Asks where the topics end, in the background: the answer may take as long as the brokers do."""
        if self._asking is not None and self._asking.done():
            answers = self._asking.result()
            self._asking = None
            for name, table in self._tables.items():
                if table.topic in answers:
                    self._completeness[name].asked(answers[table.topic])
        now = self._clock.now_ms()
        if self._asking is None and now - self._asked_at_ms >= _ASK_EVERY_MS:
            self._asked_at_ms = now
            self._asking = self._threads.submit(self._ends)

    def _ends(self) -> dict[str, Ends]:
        """Of every topic that the brokers answer for. A topic that is missing must not hold up the others."""
        answers = {}
        for topic in {table.topic for table in self._tables.values()}:
            asked_at = self._clock.now_ms()
            try:
                answers[topic] = Ends(asked_at, self._topics.end_offsets(topic))
            except EnrichError as error:
                _log.debug("no answer about the end of a topic", extra={"topic": topic, "reason": str(error)})
        return answers

    def _write_header(self) -> None:
        seq = self._store.seq
        states = {name: self._state_of(name) for name in self._tables}
        header = Header(
            *seq,
            heartbeat_ms=self._clock.now_ms(),
            pid=self._self.pid,
            started=self._self.started,
            pid_namespace=self._namespace,
            tables=states,
        )
        self._header.write(header)

    def _state_of(self, name: str) -> TableState:
        table = self._store.tables[name]
        progress = self._progress.get(name)
        through = self._completeness[name].published(table.positions) if name not in self._loads else None
        reason = self._reasons.get(name)
        if reason is None and through is None:
            reason = "catching up" if progress is None else "loading"
        return TableState(
            # Complete to the ends that were captured since this agent started: only then may anybody read.
            ready=through is not None,
            complete_through=through or table.complete_through,
            rows=table.rows,
            undecodable=self._undecodable[name],
            reason=self._reasons.get(name)
            or (None if through is not None else "loading" if progress else "catching up"),
            progress={} if progress is None else vars(progress),
        )


def _moves_on(positions: Offsets, came: Offsets) -> bool:
    return any(offset > positions.get(partition, 0) for partition, offset in came.items())
