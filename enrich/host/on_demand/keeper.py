"""Keeps a table whose rows are loaded on demand: publishes what came, and removes what is not kept any more."""

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, Future
from contextlib import closing
from itertools import islice

from enrich.base.errors import CorruptState, EnrichError, Unreachable
from enrich.host.claims.moments import Clocks, Passed
from enrich.host.claims.watch import Answer
from enrich.host.follow.tailer import Tailed
from enrich.host.ipc.header import TableState
from enrich.host.loaders.refreshing import PARTITION, kept_rows
from enrich.host.on_demand.loads import KeySource, Landed, Loads, Plan, figures
from enrich.host.on_demand.preloading import PreloadKeys, digest_of
from enrich.host.tables import OnDemandTable
from enrich.host.trouble import Trouble
from stores.freshness import CLOCK_STEP_MS
from stores.protocol import TableUpdate
from stores.rocks import Prepared, RocksReader, RocksStore
from stores.table import HistoryFloor, RowVersion, Seq, row_versions

_ROWS_A_WRITE = 5_000
"""One row of a publication costs the agent's loop 14 us."""
_PRELOADED = "preloaded"
"""The note: a digest of the keys that have been preloaded."""
_ASKED_AT_ONCE = 10_000
"""Of the keys to preload; the others wait where they take no memory."""
_SWEEP_MS = 1_000, 600_000
"""The table is looked through after a tenth of what rows may live, but within these bounds. That takes a second for
half a million keys, beside the loop."""
_EVICTED_MS = 10_000
"""After this if rows had to make room."""
_MOST_TOMBSTONES = 10_000
"""So many, or as many as there are rows, are removed by writing the rows anew."""
_EARLY = 100_000
"""Keys that are asked for while the agent looks which it has."""
_PATIENCE_S = 2.0
"""For loads that are under way when the agent ends."""


class OnDemandKeeper:
    """See `Keeper`. `want` and `wait` may be called in any thread."""

    topic = None

    def __init__(
        self,
        table: OnDemandTable,
        source: KeySource,
        preload: PreloadKeys | None,
        store: RocksStore,
        threads: Executor,
        clocks: Clocks,
        suspect: Callable[[], None],
    ) -> None:
        """`suspect` is called when the store looks damaged."""
        self._table = table
        self._preload = preload
        self._store = store
        self._threads = threads
        self._clocks = clocks
        self._suspect = suspect
        self._stopping = threading.Event()
        self._passed = Passed(clocks)
        self._loads = Loads(source, table.spec.decoder, plan_of(table), self._passed.seconds)
        self._running: Future[Callable[[], None]] | None = None
        self._is_written_anew = False
        self._is_restored = False
        self._early: dict[bytes, None] = {}
        self._present: set[bytes] = set()
        self._tombstones = 0
        self._handed: dict[bytes, Landed] = {}
        """Being published."""
        self._handed_end = 0
        """The table's position once it is."""
        self._to_preload: Iterator[bytes] = iter(())
        self._preload_left: set[bytes] | None = None
        """None: the keys are not known yet."""
        self._digest = ""
        self._to_note: str | None = None
        self._sweep_ms = min(max(table.expire_ms // 10, _SWEEP_MS[0]), _SWEEP_MS[1])
        self._swept_ms = self._passed.ms()
        self._evictions = 0, 0
        """At the last two sweeps: of what was evicted before the last one, some may not have been published by then."""
        self._trouble = Trouble(clocks.wall)

    @property
    def name(self) -> str:
        return self._table.name

    # Any thread.

    def want(self, keys: Sequence[bytes]) -> None:
        """They were looked up, and are not there, or are old."""
        with self._loads.changed:
            if not self._is_restored:
                self._early |= dict.fromkeys(keys[: _EARLY - len(self._early)])
                return
        self._loads.want(keys)

    def wait(self, keys: Sequence[bytes], patience_s: float) -> Seq:
        """Until each of them is published, or known not to be there. Returns the seq as of which that is so, or what
        there is when patience ends. Raises Unreachable if the agent ends meanwhile: the next one is to be asked."""
        end_s = time.monotonic() + patience_s
        changed = self._loads.changed
        with changed:
            changed.wait_for(lambda: self._is_restored or self._stopping.is_set(), patience_s)
        self._loads.need(keys)
        try:
            with changed:
                left = list(keys)
                while not self._are_settled(left):
                    left_s = end_s - time.monotonic()
                    if left_s <= 0 or self._stopping.is_set() or not changed.wait(left_s):
                        break
        finally:
            self._loads.need_not(keys)
        if self._stopping.is_set():
            raise Unreachable("the agent ends", next_step="ask the next one")
        return self._store.seq

    def _are_settled(self, left: list[bytes]) -> bool:
        """Takes away those that are, from the end to the first that is not: whoever waits is woken for each key that
        lands, and to look at all of them each time would take a core."""
        while left and self._is_settled(left[-1]):
            left.pop()
        return not left

    def _is_settled(self, key: bytes) -> bool:
        return not (self._loads.is_asked(key) or key in self._loads.landed or key in self._handed)

    # The agent's loop.

    @property
    def is_at_rest(self) -> bool:
        return False

    def hear(self, answer: Answer | EnrichError) -> None:
        """Does nothing: the table has no topic."""

    def step(self) -> None:
        if self._running is not None:
            if not self._running.done():
                return
            running, self._running = self._running, None
            running.result()()
            self._trouble.is_over()
        if self._trouble.is_waiting():
            return
        if not self._is_restored:
            self._running = self._threads.submit(self._restore)
        elif self._preload is not None and self._preload_left is None:
            self._running = self._threads.submit(self._read_keys, self._preload)
        elif self._tombstones > max(_MOST_TOMBSTONES, len(self._present)) and not self._handed:
            self._is_written_anew = True
            self._running = self._threads.submit(self._write_anew)
        elif self._is_sweep_due():
            self._swept_ms = self._passed.ms()
            self._evictions = self._evictions[1], self._loads.cache.statistics().evictions
            self._running = self._threads.submit(self._sweep)
        self._ask_for_preload()

    def update(self, tailed: Tailed | None) -> Prepared | None:  # noqa: ARG002 - nothing comes of a topic
        self._settle()
        if self._is_written_anew or not self._is_restored:
            return None
        with self._loads.changed:
            landed = self._loads.landed
            for key, one in self._handed.items():  # it was not published
                landed.setdefault(key, one)
            chosen = {key: landed.pop(key) for key in list(islice(landed, _ROWS_A_WRITE))}
            rows = {key: one for key, one in chosen.items() if one.value is not None or key in self._present}
            self._handed = chosen
            self._loads.taken()
            position = self._store.tables[self.name].positions.get(PARTITION, 0)
            self._handed_end = position + len(rows)
        if not rows and self._to_note is None:
            self._settle()
            return None
        now_ms, now_s = self._clocks.wall.now_ms(), self._passed.seconds()
        versions = [
            RowVersion(key, PARTITION, position + number, now_ms - int(1000 * (now_s - one.at_s)), one.value)
            for number, (key, one) in enumerate(rows.items())
        ]
        notes = None if self._to_note is None else {_PRELOADED: self._to_note}
        update = TableUpdate(row_versions(versions), {PARTITION: self._handed_end}, notes=notes)
        return self._store.prepare(self.name, update)

    def failed(self, error: Exception) -> None:
        if isinstance(error, CorruptState):
            self._suspect()
        self._is_written_anew = False
        self._trouble.met(error, "a table on demand makes no progress", table=self.name)

    def state(self) -> TableState:
        self._settle()
        table = self._store.tables[self.name]
        is_ready = self._is_ready()
        progress = dict(figures(self._loads))
        if not is_ready and self._preload_left is not None:
            progress["to_come"] = len(self._preload_left)
        return TableState(
            ready=is_ready,
            rows=table.rows,
            split_keys=table.split_keys,
            reason=self._reason(is_ready=is_ready),
            next_try=self._trouble.next_try_ms,
            progress=progress,
        )

    def close(self) -> None:
        self._stopping.set()
        with self._loads.changed:
            self._loads.changed.notify_all()
        if self._running is not None:
            self._running.cancel()
        self._loads.close(_PATIENCE_S)

    def _settle(self) -> None:
        """Takes note of what is published."""
        if self._store.tables[self.name].positions.get(PARTITION, 0) < self._handed_end:
            return
        notes = self._store.tables[self.name].notes
        if self._to_note is not None and notes.get(_PRELOADED) == self._to_note:
            self._to_note = None
        if not self._handed:
            return
        with self._loads.changed:
            handed, self._handed = self._handed, {}
            for key, one in handed.items():
                if one.value is not None:
                    self._present.add(key)
                elif key in self._present:
                    self._present.discard(key)
                    self._tombstones += 1
                if self._preload_left:
                    self._preload_left.discard(key)
            self._loads.changed.notify_all()

    def _is_ready(self) -> bool:
        if not self._is_restored:
            return False
        if self._preload is None:
            return True
        noted = self._store.tables[self.name].notes.get(_PRELOADED)
        # What was preloaded once is served even if nobody can say now which keys these were.
        return noted is not None and (self._preload_left is None or noted == self._digest)

    def _reason(self, *, is_ready: bool) -> str | None:
        if self._trouble.reason is not None:
            return self._trouble.reason
        loads = self._loads
        if loads.trouble is not None:
            waiting = f"; {loads.waiting:,} keys wait" if loads.waiting else ""
            return f"rows cannot be loaded: {loads.trouble}{waiting}"
        if not is_ready:
            return "loading"
        bad = loads.counts.bad
        return "; ".join(f"{number:,} answers are no rows: {why}" for why, number in bad.most_common(3)) or None

    # What runs beside the loop returns what the loop has to do when it has ended.

    def _restore(self) -> Callable[[], None]:
        """A key that the last agent had is loaded again when that is due, not at once."""
        now_ms, tombstones = self._clocks.wall.now_ms(), 0
        present, expired = set[bytes](), list[bytes]()
        with closing(RocksReader(self._store.path, {self.name: self._table.spec})) as reader:
            for version in reader.snapshot().table(self.name).scan():
                if self._stopping.is_set():
                    break
                if version.value is None:
                    tombstones += 1
                    continue
                present.add(version.key)
                # One of the future is from before the clock was set back: it is loaded again when it is used.
                age_ms = now_ms - version.timestamp
                age_ms = max(0, age_ms) if age_ms >= -CLOCK_STEP_MS else self._table.refresh_ms
                if age_ms >= self._table.expire_ms:
                    expired.append(version.key)
                else:
                    self._loads.cache.put(version.key, True, age_s=age_ms / 1000)

        def take() -> None:
            with self._loads.changed:
                self._present, self._tombstones = present, tombstones
                for key in expired:
                    # Whoever has no patience left has it loaded already: what came is newer.
                    self._loads.has_to_go(key)
                self._is_restored = True
                early, self._early = list(self._early), {}
                self._loads.changed.notify_all()
            self._loads.want(early)

        return take

    def _read_keys(self, preload: PreloadKeys) -> Callable[[], None]:
        keys = preload.read(self._stopping.is_set)
        digest = digest_of(keys)

        def take() -> None:
            cache = self._loads.cache
            self._preload_left = {key for key in keys if key not in cache}
            self._to_preload = iter(list(self._preload_left))
            self._digest = digest

        return take

    def _write_anew(self) -> Callable[[], None]:
        kept = kept_rows(self._store.path, self.name, self._table.spec)
        position = self._store.tables[self.name].positions.get(PARTITION, 0)
        with self._store.bulk(self.name) as load:
            for batch in kept.living.to_batches():
                load.add(batch)
            floor = HistoryFloor(position, self._clocks.wall.now_ms())
            load.finish({PARTITION: position}, {PARTITION: floor}, notes=self._store.tables[self.name].notes)

        def take() -> None:
            self._tombstones, self._is_written_anew = 0, False

        return take

    def _ask_for_preload(self) -> None:
        left, loads = self._preload_left, self._loads
        if left is None:
            return
        if left and not loads.waiting:
            with loads.changed:
                # One whose answer is no row is never published.
                left -= {key for key in left if key in loads.cache and self._is_settled(key)}
            self._to_preload = iter(list(left))  # those that were given up
        if (room := _ASKED_AT_ONCE - loads.waiting) > 0:
            loads.want(list(islice(self._to_preload, room)), is_needed=True)
        if not left and self._store.tables[self.name].notes.get(_PRELOADED) != self._digest:
            self._to_note = self._digest

    def _is_sweep_due(self) -> bool:
        passed_ms = self._passed.ms() - self._swept_ms
        has_evicted = self._loads.cache.statistics().evictions != self._evictions[0]
        return passed_ms >= self._sweep_ms or (has_evicted and passed_ms >= _EVICTED_MS)

    def _sweep(self) -> Callable[[], None]:
        """What expired, or had to make room, goes from the store too."""
        loads = self._loads
        loads.cache.drop_expired()
        gone = [key for key in list(self._present) if key not in loads.cache]

        def take() -> None:
            with loads.changed:
                for key in gone:
                    if not loads.has(key):
                        loads.has_to_go(key)

        return take


def plan_of(table: OnDemandTable) -> Plan:
    section = table.section
    demand = section.demand
    refresh_s, expire_s = table.refresh_ms / 1000, table.expire_ms / 1000
    return Plan(refresh_s, expire_s, section.max_entries, demand.per_second, demand.parallel)
