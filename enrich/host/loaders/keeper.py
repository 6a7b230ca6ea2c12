"""Keeps a table as its external source is: reads all of it at an interval, and serves the last read until the next.

The rules are those of the refresh-after-write cache, with the whole table as one entry: the old rows answer while it is
read again; a read that fails leaves them and is retried after a pause; rows that could not be read for long are
dropped.
"""

import logging
import threading
import time
from collections.abc import Callable
from concurrent.futures import Executor, Future
from dataclasses import dataclass

from enrich.base.errors import CorruptState, EnrichError
from enrich.host.claims.moments import Clocks
from enrich.host.claims.watch import Answer
from enrich.host.follow.tailer import Tailed
from enrich.host.ipc.header import TableState
from enrich.host.loaders.refreshing import NEVER, Refreshed, Refresher
from enrich.host.tables import LoaderTable
from enrich.host.trouble import Trouble
from stores.backoff import Backoff
from stores.freshness import CLOCK_STEP_MS
from stores.protocol import Clock, TableUpdate
from stores.rocks import Prepared, RocksStore
from stores.table import row_versions

_log = logging.getLogger(__name__)

_DROP_AFTER_S = 1.0
"""Expired rows are dropped only after the header has said for so long that the table is not ready. Otherwise a reader
that saw it ready just before would find its rows deleted."""
_SAVE_EVERY_MS = 60_000
"""How often the complete_through of a table that does not change is saved, for the next agent."""


@dataclass(frozen=True)
class _Progress:
    """How far a read is."""

    began_s: float
    rows: int = 0

    def as_numbers(self) -> dict[str, float]:
        seconds = time.monotonic() - self.began_s
        return {"records": self.rows, "per_second": self.rows / seconds if seconds > 0 else 0.0}


class LoaderKeeper:
    """See `Keeper`."""

    topic = None

    def __init__(
        self,
        table: LoaderTable,
        refresher: Refresher,
        store: RocksStore,
        threads: Executor,
        clock: Clock,
        suspect: Callable[[], None],
    ) -> None:
        """`suspect` is called when the store looks damaged."""
        self._table = table
        self._refresher = refresher
        self._store = store
        self._threads = threads
        self._clock = clock
        self._clocks = Clocks(clock)
        self._looked = self._clocks.now()
        self._suspect = suspect
        self._stopping = threading.Event()
        saved = store.tables[table.name].complete_through
        self._through = None if saved == NEVER else saved
        if self._through is not None and self._through > self._looked.wall_ms + CLOCK_STEP_MS:
            # The clock was set back while there was no agent: nobody knows how old it is, and it is read again at once.
            self._through = self._looked.wall_ms - table.refresh_ms
        self._to_be_through: int | None = None
        """complete_through once the update that was handed out is published."""
        self._running: Future[Refreshed] | None = None
        self._progress = _Progress(0)
        self._came: Refreshed | None = None
        self._remarks = ""
        self._has_tried = False
        self._dropped = False
        self._reported_expired_s: float | None = None
        self._not_before_ms: int | None = None
        refresh_s = table.refresh_ms / 1000
        backoff = Backoff(first_s=min(1.0, refresh_s), longest_s=min(60.0, refresh_s))
        self._trouble = Trouble(clock, backoff)

    @property
    def name(self) -> str:
        return self._table.name

    @property
    def is_at_rest(self) -> bool:
        return False

    def hear(self, answer: Answer | EnrichError) -> None:
        """Does nothing: the table has no topic."""

    def step(self) -> None:
        self._go_back_with_the_clock()
        if self._running is not None:
            if self._running.done():
                self._take(self._running)
        elif self._is_to_be_dropped():
            reason = {"table": self.name, "reason": self._trouble.reason}
            _log.error("a table could not be read for too long: its rows are dropped", extra=reason)
            self._running = self._threads.submit(self._refresher.drop)
        elif self._is_due():
            self._progress = _Progress(time.monotonic())
            self._running = self._threads.submit(self._refresher.refresh, self._report, self._stopping.is_set)

    def update(self, tailed: Tailed | None) -> Prepared | None:  # noqa: ARG002 - nothing comes of a topic
        update = self._update()
        return None if update is None else self._store.prepare(self.name, update)

    def failed(self, error: Exception) -> None:
        if isinstance(error, CorruptState):
            self._suspect()
        self._came = self._to_be_through = None
        if self._running is None:
            # The result of the last read may not be in the store: the next read compares with the store again.
            self._refresher.forget()
        self._trouble.met(error, "a table cannot be read from its source", table=self.name)
        self._not_before_ms = self._trouble.next_try_ms

    def _update(self) -> TableUpdate | None:
        came, self._came = self._came, None
        if came is None:
            return None
        saved = self._store.tables[self.name].complete_through
        through = came.complete_through
        self._to_be_through = through
        if came.update is not None or through is None:
            return came.update
        if saved is not None and 0 <= through - saved < _SAVE_EVERY_MS:
            self._is_through(through)
            return None
        return TableUpdate(row_versions(()), {}, through)

    def state(self) -> TableState:
        table = self._store.tables[self.name]
        if self._to_be_through is not None and table.complete_through == self._to_be_through:
            self._is_through(self._to_be_through)
        is_ready = self._is_ready()
        if not self._is_expired():
            self._reported_expired_s = None
        elif self._reported_expired_s is None:
            self._reported_expired_s = time.monotonic()
        return TableState(
            ready=is_ready,
            complete_through=self._through,
            rows=table.rows,
            split_keys=table.split_keys,
            reason=self._reason(is_ready=is_ready),
            next_try=self._trouble.next_try_ms,
            progress=self._progress.as_numbers() if self._running is not None and not is_ready else {},
        )

    def close(self) -> None:
        self._stopping.set()
        if self._running is not None:
            self._running.cancel()

    def _go_back_with_the_clock(self) -> None:
        """If it was set back. What was read would else be of the future, and never old."""
        now = self._clocks.now()
        if self._through is not None:
            self._through -= self._looked.wall_ms - self._looked.on_clock_of(now)
        self._looked = now

    def _is_through(self, moment: int) -> None:
        self._through, self._to_be_through = moment, None
        self._dropped = False

    def _is_ready(self) -> bool:
        """Whether all rows of one read are there, and this agent has tried to read newer ones if they were due."""
        if self._through is None or self._is_expired():
            return False
        return self._has_tried or 0 <= self._clock.now_ms() - self._through < self._table.refresh_ms

    def _is_to_be_dropped(self) -> bool:
        if self._trouble.reason is None or not self._is_expired() or self._reported_expired_s is None:
            return False
        return time.monotonic() - self._reported_expired_s >= _DROP_AFTER_S

    def _is_due(self) -> bool:
        now = self._clock.now_ms()
        if self._not_before_ms is None:
            # This agent has not read it yet: what the previous agent read counts.
            return self._through is None or not 0 <= now - self._through < self._table.refresh_ms
        # A clock that was set back must not delay the next read.
        return not self._not_before_ms - self._table.refresh_ms <= now < self._not_before_ms

    def _is_expired(self) -> bool:
        return self._through is not None and self._clock.now_ms() - self._through >= self._table.expire_ms

    def _report(self, rows: int) -> None:
        self._progress = _Progress(self._progress.began_s, rows)

    def _take(self, running: "Future[Refreshed]") -> None:
        self._running = None
        self._has_tried = True
        came = running.result()
        self._came = came
        if came.dropped:
            # A clock that is set back must not make a table without rows ready again.
            self._through, self._dropped = None, True
            return
        self._trouble.is_over()
        self._remarks = "; ".join(came.remarks)
        self._not_before_ms = self._clock.now_ms() + self._table.refresh_ms

    def _reason(self, *, is_ready: bool) -> str | None:
        why = self._trouble.reason or self._remarks or None
        if self._dropped or self._is_expired():
            return f"it could not be read for so long that its rows were dropped: {why}"
        return why if is_ready or why is not None else "loading"
