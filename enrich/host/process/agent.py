"""The agent's work: a keeper for each table, and one publication of what they bring, of which readers are told."""

import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from functools import partial
from queue import SimpleQueue

from enrich.base.errors import CorruptState, EnrichError, Fatal, Fenced, Retryable
from enrich.host.claims.moments import Clocks
from enrich.host.claims.watch import Answer, TopicWatch
from enrich.host.follow.keeper import Keeper
from enrich.host.follow.tailer import Tailed, Tailer
from enrich.host.follow.topic_keeper import TopicKeeper
from enrich.host.ipc.header import Header, HeaderWriter
from enrich.host.ipc.imports import Imports
from enrich.host.load.loading import Listener, Loaded, LoadTable, Order, Progress, load_table
from enrich.host.load.snapshots import HeadStarts, load_from_newest
from enrich.host.loaders import Refresher, source_of
from enrich.host.loaders.keeper import LoaderKeeper
from enrich.host.on_demand.choosing import preload_of, source_by_key
from enrich.host.on_demand.keeper import OnDemandKeeper
from enrich.host.process.telling import Telling
from enrich.host.tables import AnyTable, OnDemandTable, TopicTable
from enrich.host.trouble import reason_of
from enrich.kafka import Connection, new_store_consumer
from stores.protocol import Clock, Quarantined, QuarantineId
from stores.rocks import Prepared, RocksStore
from stores.snapshots import Snapshot

_log = logging.getLogger(__name__)

_BATCH_RECORDS = 10_000
_IDLE_S, _ON_DEMAND_IDLE_S = 0.05, 0.02
"""How long the loop waits for a record, and so for anything else; less where somebody may wait for a key."""
_WRITE_AGAIN_S = 0.5
_CLEAN_EVERY_MS, _CLEAN_AT_ONCE = 5_000, 2_000
"""Versions of which none can be asked for any more go in pieces, each turn one until none is left; and twice as many as
came meanwhile, so that a table that changes fast does not grow."""
_WAKE_ALL_EVERY_MS = 1_000
_FETCH_WAIT_MS, _FETCH_WAIT_OF_TOPIC_MS = (100, 1_000), 5
"""A fetch that finds nothing names all partitions all the same: with many topics there are fewer."""

_PATIENCE_S = 2
"""For what only reads, when the agent ends."""

_ENDS_ALL = (CorruptState, Fenced, Fatal)
"""What the store raises about itself, and not about a table."""


class Agent:
    """One run over one store. The caller holds the store's lock and decides when it ends."""

    def __init__(
        self,
        store: RocksStore,
        tables: Mapping[str, AnyTable],
        connection: Connection,
        header: HeaderWriter,
        clock: Clock,
        *,
        verify: Callable[[], object] = lambda: None,
        load: LoadTable = load_table,
        head_starts: HeadStarts | None = None,
        imports: Imports | None = None,
        remarks: Callable[[], Mapping[str, str]] = dict,
    ) -> None:
        """`verify` reads the whole store and raises CorruptState for damage. It runs in the background, after a start
        with rows and whenever somebody suspects the store. `head_starts`: snapshots that a load may begin with;
        `imports`: where people ask to take one in. `remarks`: what others have to say of tables that are well."""
        self._store = store
        self._connection = connection
        self._clock = clock
        self._verify = verify
        self._load_table = load
        self._head_starts = head_starts
        self._imports = imports
        self._verifying: Future[object] | None = None
        self._suspected = threading.Event()
        self._refresh_wanted = threading.Event()
        self._orders: SimpleQueue[Callable[[], object]] = SimpleQueue()
        topics = [table.topic for table in tables.values() if isinstance(table, TopicTable)]
        wait_ms = max(_FETCH_WAIT_MS[0], min(len(topics) * _FETCH_WAIT_OF_TOPIC_MS, _FETCH_WAIT_MS[1]))
        self._tailer = Tailer(partial(new_store_consumer, connection, fetch_wait_ms=wait_ms))
        self._clocks = Clocks(clock)
        self._watch = TopicWatch(topics, connection, self._clocks)
        self._stopping = threading.Event()
        # Three tables at a time, so that one long load does not hold up all others.
        self._threads = ThreadPoolExecutor(max_workers=3, thread_name_prefix="agent")
        # Of their own: decoding that waits for a server holds up no load, and no load holds it up.
        self._decoding = ThreadPoolExecutor(max_workers=4, thread_name_prefix="decoding")
        # Of its own: a suspicion is looked into although loads wait for their turn.
        self._verifier = ThreadPoolExecutor(max_workers=1, thread_name_prefix="verify")
        # Of their own: a server that does not answer holds up no topic.
        self._loader_threads = ThreadPoolExecutor(max_workers=4, thread_name_prefix="loader")
        self._keepers: list[Keeper] = [self._keeper_of(table) for table in tables.values()]
        self._of_topic: dict[str, list[Keeper]] = {}
        for keeper in self._keepers:
            if keeper.topic is not None:
                self._of_topic.setdefault(keeper.topic, []).append(keeper)
        self._telling = Telling(store, self._keepers, header, clock, remarks)
        self.on_demand = {keeper.name: keeper for keeper in self._keepers if isinstance(keeper, OnDemandKeeper)}
        """Tables that readers tell what they need."""
        self._idle_s = _ON_DEMAND_IDLE_S if self.on_demand else _IDLE_S
        self._topic_keepers = {keeper.name: keeper for keeper in self._keepers if isinstance(keeper, TopicKeeper)}
        self._unwritten: Mapping[str, Prepared] = {}
        self._write_failure: EnrichError | None = None
        self._clean_at_ms = self._clocks.steady.now_ms() + _CLEAN_EVERY_MS
        self._wake_all_at_ms = 0
        self._published_rows = 0
        """In this turn."""
        if any(table.rows for table in store.tables.values()):
            self.suspect()

    def step(self) -> None:
        """One turn of the loop: at most a few tens of milliseconds when there is little to do.

        Whatever goes wrong with one table is that table's: it is set aside and tried again, and the others go on.
        Raises CorruptState when the store is damaged and has to be rebuilt, Fenced and Fatal.
        """
        if self._unwritten:
            # Until it is written nothing else is begun: a load that starts now could not tell what is of which topic.
            time.sleep(_WRITE_AGAIN_S)
        else:
            if self._refresh_wanted.is_set():
                self._refresh_wanted.clear()
                self._watch.ask_now()
            if self._imports is not None:
                self._imports.hand_out(self._topic_keepers)
            self._obey()
            self._hear()
            awake = self._awake()
            for keeper in awake:
                with _its_own(keeper):
                    keeper.step()
            self._unwritten = self._updates(self._tailer.poll(_BATCH_RECORDS, self._idle_s), awake)
        self._telling.has_news |= bool(self._unwritten)
        self._publish()
        self._clean()
        self._look_for_damage()
        self._telling.tell(self._write_failure)

    @property
    def header(self) -> Header | None:
        """What readers were told last."""
        return self._telling.told

    def suspect(self) -> None:
        """Leaves word, from any thread, that somebody found the store damaged: it is read as a whole."""
        self._suspected.set()

    def refresh(self) -> None:
        """Leaves word, from any thread, that somebody wants complete_through to move on now."""
        self._refresh_wanted.set()

    def rebuild(self, table: str) -> None:
        """Leaves word, from any thread, that somebody wants the table loaded anew."""
        self._orders.put(self._topic_keepers[table].load_anew)

    def purge(self, table: str, ids: Sequence[QuarantineId]) -> None:
        """Leaves word, from any thread, that these records are to leave the table's quarantine."""
        self._orders.put(partial(self._store.purge, table, ids))

    def close(self) -> None:
        """Takes seconds: what takes longer holds nothing that counts, and is left alone."""
        self._stopping.set()
        for keeper in self._keepers:
            keeper.close()
        self._decoding.shutdown(wait=False, cancel_futures=True)
        self._threads.shutdown(wait=True, cancel_futures=True)
        self._verifier.shutdown(wait=False, cancel_futures=True)
        if self._verifying is not None:
            wait([self._verifying], _PATIENCE_S)
        self._loader_threads.shutdown(wait=True, cancel_futures=True)
        self._watch.close()
        self._tailer.close()

    def _keeper_of(self, table: AnyTable) -> Keeper:
        if isinstance(table, TopicTable):
            threads = self._threads, self._decoding
            return TopicKeeper(table, self._store, self._tailer, self._load, *threads, self._clocks)
        if isinstance(table, OnDemandTable):
            of_key, preload = source_by_key(table, self._stopping.is_set), preload_of(table, self._connection)
            loads = self._loader_threads, self._clocks, self.suspect
            return OnDemandKeeper(table, of_key, preload, self._store, *loads)
        source = source_of(table.name, table.section, self._store.path.with_name("loading") / table.name)
        refresher = Refresher(table.name, table.spec, source, self._store, self._clock, _tell_quarantined)
        return LoaderKeeper(table, refresher, self._store, self._loader_threads, self._clock, self.suspect)

    def _load(
        self, table: TopicTable, answer: Answer, tell: Callable[[Progress], None], chosen: Snapshot | None
    ) -> Loaded | None:
        listener = Listener(tell, _tell_quarantined, self._stopping.is_set)

        def load(head_start: Snapshot | None) -> Loaded | None:
            order = Order(table, answer, self._connection, head_start)
            return self._load_table(self._store, order, listener, self._clock)

        return load(chosen) if chosen is not None else load_from_newest(table, self._head_starts, load)

    def _obey(self) -> None:
        while not self._orders.empty():
            self._wake_all_at_ms = 0
            try:
                self._orders.get_nowait()()
            except _ENDS_ALL:
                raise
            except Exception as error:  # noqa: BLE001 - somebody's wish must not end the agent
                _tell("what was asked for cannot be done now", error)

    def _hear(self) -> None:
        answers = self._watch.answers()
        self._telling.has_news |= bool(answers)
        for topic, answer in answers.items():
            for keeper in self._of_topic[topic]:
                self._telling.touched.add(keeper.name)
                with _its_own(keeper):
                    keeper.hear(answer)

    def _awake(self) -> Sequence[Keeper]:
        """The keepers that have something to do; now and then all of them."""
        now = self._clocks.steady.now_ms()
        if now < self._wake_all_at_ms:
            return [keeper for keeper in self._keepers if not keeper.is_at_rest]
        self._wake_all_at_ms = now + _WAKE_ALL_EVERY_MS
        return self._keepers

    def _updates(self, came: Mapping[str, Tailed], awake: Sequence[Keeper]) -> Mapping[str, Prepared]:
        updates: dict[str, Prepared] = {}
        due = {keeper.name: keeper for keeper in awake}
        due |= {keeper.name: keeper for topic in came for keeper in self._of_topic[topic]}
        self._telling.touched.update(due)
        for keeper in due.values():
            with _its_own(keeper):
                update = keeper.update(came.get(keeper.topic) if keeper.topic else None)
                if update is not None:
                    updates[keeper.name] = update
        return updates

    def _publish(self) -> None:
        if not self._unwritten:
            return
        try:
            published = self._store.publish(self._unwritten)
        except Retryable as error:
            if self._write_failure is None:
                _log.error("what was read cannot be written; it is tried again", extra={"reason": str(error)})
            self._write_failure = error
            return
        except _ENDS_ALL:
            raise
        except Exception as error:  # noqa: BLE001 - nobody knows of which table, so it is found out
            _tell("what was read cannot be written in one piece", error)
            self._unwritten = self._publish_one_by_one()
            return
        self._published_rows = sum(len(one.update.versions) for one in self._unwritten.values())
        self._unwritten, self._write_failure = {}, None
        _tell_quarantined(published.quarantined)

    def _publish_one_by_one(self) -> Mapping[str, Prepared]:
        """After what is no fault of the disk or the store: the tables that fail alone, too, are set aside. Returns what
        a full disk leaves over."""
        left: dict[str, Prepared] = {}
        for keeper in self._keepers:
            one = self._unwritten.get(keeper.name)
            if one is None:
                continue
            with _its_own(keeper, *_ENDS_ALL):
                try:
                    _tell_quarantined(self._store.publish({keeper.name: one}).quarantined)
                except Retryable:
                    left[keeper.name] = one
        return left

    def _clean(self) -> None:
        """Removes what no question can reach any more, a bounded piece at a time."""
        most, self._published_rows = _CLEAN_AT_ONCE + 2 * self._published_rows, 0
        now = self._clocks.steady.now_ms()
        if self._unwritten or now < self._clean_at_ms:
            return
        self._clean_at_ms = now + _CLEAN_EVERY_MS
        try:
            if self._store.remove_expired(most).looked_at >= most:
                self._clean_at_ms = now
        except _ENDS_ALL:
            raise
        except Exception as error:  # noqa: BLE001 - they take space, and nothing else
            _tell("old versions cannot be removed now", error)

    def _look_for_damage(self) -> None:
        if self._verifying is None and self._suspected.is_set():
            self._suspected.clear()
            self._verifying = self._verifier.submit(self._verify)
        if self._verifying is not None and self._verifying.done():
            verifying, self._verifying = self._verifying, None
            try:
                verifying.result()
            except (CorruptState, Fenced):
                raise
            except Exception as error:  # noqa: BLE001 - of a reader; the store itself is open and answers
                _tell("the store could not be verified", error)


@contextmanager
def _its_own(keeper: Keeper, *those_of_all: type[Exception]) -> Iterator[None]:
    """What goes wrong inside is this table's."""
    try:
        yield
    except those_of_all:
        raise
    except Exception as error:  # noqa: BLE001 - whatever it is, other tables have nothing to do with it
        keeper.failed(error)


def _tell(what: str, error: Exception) -> None:
    known = isinstance(error, EnrichError)
    _log.warning(what, extra={"reason": reason_of(error)}, exc_info=None if known else error)


def _tell_quarantined(records: Sequence[Quarantined]) -> None:
    """One line for each reason, however many records there are. Never their bytes: those are in the quarantine."""
    firsts: dict[tuple[str, str], Quarantined] = {}
    for record in records:
        firsts.setdefault((record.table, record.reason), record)
    numbers = Counter((record.table, record.reason) for record in records)
    for group, first in firsts.items():
        origin = {"table": first.table, "partition": first.partition, "offset": first.offset}
        extra = {**origin, "reason": first.reason, "records": numbers[group]}
        _log.warning("a record cannot become a row and is quarantined", extra=extra)
