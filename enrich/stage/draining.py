"""Stops a query between two batches, so that the next start repeats nothing.

Spark's own stop() interrupts the batch under way. Its stream thread takes the progress lock after each batch, once
everything about it is recorded; whoever holds the lock then has the query at rest.
"""

import logging
import threading
import time
from typing import Any

from pyspark.sql.streaming.query import StreamingQuery

_log = logging.getLogger(__name__)

_LOOK_EVERY_S = 0.002
_ASYNC = "AsyncProgressTrackingMicroBatchExecution"


def drain(query: StreamingQuery, deadline_s: float = 120.0) -> None:
    """Returns once the query has ended. A batch that takes longer than the deadline is interrupted, and repeated by the
    next start."""
    execution: Any = query._jsq.streamingQuery()
    lock = execution.awaitProgressLock()
    stopping = threading.Thread(target=query.stop, name="stopping")
    lock.lock()
    try:
        if _is_at_rest(query, execution, lock, deadline_s):
            _write_progress(execution)
        else:
            _log.warning("a batch does not end and is interrupted; the next start repeats it")
        # By another thread: it waits for the stream thread, which waits for the lock.
        stopping.start()
        while query.isActive and stopping.is_alive():
            time.sleep(_LOOK_EVERY_S)
    finally:
        lock.unlock()
    stopping.join()


def _is_at_rest(query: StreamingQuery, execution: Any, lock: Any, deadline_s: float) -> bool:
    """Waits, holding the lock, until the stream thread comes for it with a batch done."""
    end = time.monotonic() + deadline_s
    while query.isActive and time.monotonic() < end:
        if not lock.hasQueuedThreads():
            time.sleep(_LOOK_EVERY_S)
        elif execution.status().isTriggerActive():
            # It is about to begin a batch, or to record one. The lock is fair: it comes first, then we again.
            lock.unlock()
            lock.lock()
        else:
            return True
    return not query.isActive


def _write_progress(execution: Any) -> None:
    """With async progress the last batches are recorded in memory only: they would be repeated."""
    if execution.getClass().getSimpleName() != _ASYNC:
        return
    writer = execution.asyncWritesExecutorService()
    while writer.getActiveCount() or writer.getQueue().size():
        time.sleep(_LOOK_EVERY_S)
    offsets, commits = execution.offsetLog(), execution.commitLog()
    last = max((int(batch) for batch in commits.batchCache().keySet().toArray()), default=None)
    if last is not None:
        # Without async progress, which the next start may choose, Spark wants to know where the last batch began.
        _write(offsets, last - 1)
        _write(offsets, last)
        _write(commits, last)


def _write(log: Any, batch: int) -> None:
    if batch < 0:
        return
    recorded = log.get(batch)
    if log.fileManager().exists(log.batchIdToPath(batch)) or recorded.isEmpty():
        return
    # The log writes nothing that it has in its memory.
    keys = log.batchCache().keySet().iterator()
    while keys.hasNext():
        if keys.next() == batch:
            keys.remove()
    log.add(batch, recorded.get())
