"""Stops a query between two batches, so that the next start repeats nothing.

Spark's own stop() interrupts the batch under way. Its stream thread takes the progress lock after each batch, once the
batch is recorded. If another thread holds the lock at that moment, the query is at rest.
"""

import logging
import threading
import time
from typing import Any

from pyspark.sql.streaming.query import StreamingQuery

from enrich.base.errors import Unreachable
from enrich.stage.java import java_class

_log = logging.getLogger(__name__)

DEADLINE_S = 60.0
"""For the batch under way. Including the steps after it, a stage ends before the timeout of `enrich stop` (120 s) and
the grace period of the manifests (150 s)."""
_STOP_S = 15.0
_LOOK_EVERY_S = 0.002
_ASYNC = "AsyncProgressTrackingMicroBatchExecution"


def drain(query: StreamingQuery, deadline_s: float | None = None) -> None:
    """Returns once the query has ended, with its last batch recorded.

    Raises the query's own exception if it failed meanwhile, and Unreachable if a batch takes longer than the deadline:
    then it is interrupted, and repeated by the next start.
    """
    allowed_s = DEADLINE_S if deadline_s is None else deadline_s
    execution: Any = query._jsq.streamingQuery()
    lock = _Lock(execution.awaitProgressLock(), time.monotonic() + allowed_s)
    try:
        is_at_rest = lock.take() and _is_at_rest(query, execution, lock)
        if is_at_rest:
            _write_progress(execution, lock.end)
        # In another thread: stop() waits for the stream thread, which waits for the lock.
        stopping = _stopping(query)
        end = time.monotonic() + _STOP_S
        while query.isActive and stopping.is_alive() and time.monotonic() < end:
            time.sleep(_LOOK_EVERY_S)
    finally:
        lock.release()
    stopping.join(_STOP_S)
    failure = None if stopping.is_alive() else query.exception()
    if failure is not None:
        raise failure
    if not is_at_rest:
        raise Unreachable(
            f"the batch under way did not end within {allowed_s:g} s and is interrupted; the next start repeats it",
            where=f"stage {query.name}",
            next_step="check that the brokers are up; if batches are long, lower maxOffsetsPerTrigger",
        )


def stop_now(query: StreamingQuery) -> bool:
    """Interrupts the batch under way, if there is one. Returns whether the query has ended: that may take long while
    its clients wait for brokers."""
    stopping = _stopping(query)
    stopping.join(_STOP_S)
    if stopping.is_alive():
        _log.warning("the query does not end; the stage ends without waiting for it")
    return not stopping.is_alive()


def _stopping(query: StreamingQuery) -> threading.Thread:
    thread = threading.Thread(target=query.stop, name="stopping", daemon=True)
    thread.start()
    return thread


class _Lock:
    """The progress lock. Nobody waits for it beyond `end`: the stream thread may hold it for minutes while brokers do
    not answer."""

    def __init__(self, lock: Any, end: float) -> None:
        self._lock = lock
        self._unit = java_class("java.util.concurrent.TimeUnit").MILLISECONDS
        self.end = end
        self._is_mine = False

    def take(self) -> bool:
        # Always with a timeout, however short: without one tryLock() would jump the queue of the fair lock.
        left_ms = max(1, round(1000 * (self.end - time.monotonic())))
        self._is_mine = bool(self._lock.tryLock(left_ms, self._unit))
        return self._is_mine

    def release(self) -> None:
        if self._is_mine:
            self._is_mine = False
            self._lock.unlock()

    @property
    def is_wanted(self) -> bool:
        return bool(self._lock.hasQueuedThreads())


def _is_at_rest(query: StreamingQuery, execution: Any, lock: _Lock) -> bool:
    """Waits, holding the lock, until the stream thread waits for it with its batch recorded."""
    while query.isActive and time.monotonic() < lock.end:
        if not lock.is_wanted:
            time.sleep(_LOOK_EVERY_S)
        elif execution.status().isTriggerActive():
            # It is about to begin a batch, or to record one. The lock is fair: the stream thread gets it next, then us.
            lock.release()
            if not lock.take():
                return False
        else:
            return True
    return not query.isActive


def _write_progress(execution: Any, end: float) -> None:
    """With async progress the last batches are recorded in memory only. Without this they would be repeated."""
    if execution.getClass().getSimpleName() != _ASYNC:
        return
    writer = execution.asyncWritesExecutorService()
    while (writer.getActiveCount() or writer.getQueue().size()) and time.monotonic() < end:
        time.sleep(_LOOK_EVERY_S)
    offsets, commits = execution.offsetLog(), execution.commitLog()
    last = max((int(batch) for batch in commits.batchCache().keySet().toArray()), default=None)
    if last is not None:
        # If the next start uses no async progress, Spark needs the start of the last batch too.
        _write(offsets, last - 1)
        _write(offsets, last)
        _write(commits, last)


def _write(log: Any, batch: int) -> None:
    if batch < 0:
        return
    recorded = log.get(batch)
    if log.fileManager().exists(log.batchIdToPath(batch)) or recorded.isEmpty():
        return
    # The log does not write a batch that is in its cache.
    keys = log.batchCache().keySet().iterator()
    while keys.hasNext():
        if keys.next() == batch:
            keys.remove()
    log.add(batch, recorded.get())
