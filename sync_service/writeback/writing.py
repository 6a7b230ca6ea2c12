"""Writes a batch to the store: in pieces small enough to be written in time, with quick retries for short failures. Bad
rows are found by halving."""

import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait

from enrich.base.backoff import Backoff
from enrich.base.errors import BadRecord, Retryable, TooSlow, Unreachable
from stores.external import VersionedRows, Written

# Enough for a deadlock or the first moments of a failover; longer failures must wait without blocking other partitions.
_QUICK_TRIES = 3
# If a piece is written faster, the next one may be larger.
_FAST_S = 2.0
_STEPS = 20
_KEEP_ALIVE_S = 0.5

Write = Callable[[VersionedRows], Written]
KeepAlive = Callable[[], object]


class RowWriter:
    """Writes rows to a store, and reports which rows it refuses.

    A piece that is not written in time is halved; pieces before it stay written. Pieces grow again slowly while the
    store is fast.
    """

    def __init__(
        self,
        write: Write,
        sleep: Callable[[float], object] = time.sleep,
        *,
        most: int = 5_000,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._write = write
        self._sleep = sleep
        self._clock = clock
        self._most = self.piece = most
        self.retries = 0

    def write(self, rows: VersionedRows, keep_alive: KeepAlive = lambda: None) -> Written:
        """Calls `keep_alive` after each piece. Raises Retryable if the store is unreachable, stays busy or takes too
        long for a single row: some of the rows may then be written."""
        applied, refused, start = 0, dict[int, BadRecord](), 0
        while start < len(rows):
            count = min(self.piece, len(rows) - start)
            piece = rows if count == len(rows) else rows.take(range(start, start + count))
            began = self._clock()
            try:
                part = self._halved(piece)
            except TooSlow:
                if count == 1:
                    raise
                self.piece = count // 2
                keep_alive()
                continue
            if count == self.piece and self._clock() - began < _FAST_S:
                self.piece = min(self._most, self.piece + max(1, self._most // _STEPS))
            applied += part.applied
            refused |= {index + start: error for index, error in part.refused.items()}
            start += count
            keep_alive()
        return Written(applied, refused)

    def _halved(self, rows: VersionedRows) -> Written:
        try:
            return self._try(rows)
        except BadRecord as error:
            if len(rows) == 1:
                return Written(0, {0: error})
        middle = len(rows) // 2
        first = self._halved(rows.take(range(middle)))
        second = self._halved(rows.take(range(middle, len(rows))))
        refused = {**first.refused, **{index + middle: error for index, error in second.refused.items()}}
        return Written(first.applied + second.applied, refused)

    def _try(self, rows: VersionedRows) -> Written:
        pauses = Backoff(0.02, 0.2)
        while True:
            try:
                return self._write(rows)
            except Unreachable:
                raise
            except Retryable:
                self.retries += 1
                if pauses.tries >= _QUICK_TRIES:
                    raise
                self._sleep(pauses.next_s())


class ParallelWriter:
    """Writes one batch over several connections. No key occurs twice in a batch, so the order does not matter."""

    def __init__(self, writers: Sequence[RowWriter]) -> None:
        self._writers = writers
        self._threads = ThreadPoolExecutor(len(writers), "writer") if len(writers) > 1 else None

    @property
    def retries(self) -> int:
        return sum(writer.retries for writer in self._writers)

    def write(self, rows: VersionedRows, keep_alive: KeepAlive = lambda: None) -> Written:
        """See `RowWriter`. Returns or raises only when all writers have finished."""
        if self._threads is None or len(rows) < 2 * len(self._writers):
            return self._writers[0].write(rows, keep_alive)
        share = -(-len(rows) // len(self._writers))
        starts = range(0, len(rows), share)
        shares = [rows.take(range(start, min(start + share, len(rows)))) for start in starts]
        running = [
            self._threads.submit(writer.write, some) for writer, some in zip(self._writers, shares, strict=False)
        ]
        while wait(running, _KEEP_ALIVE_S).not_done:
            keep_alive()
        written = [future.result() for future in running]
        refused = {
            index + start: error
            for start, part in zip(starts, written, strict=True)
            for index, error in part.refused.items()
        }
        return Written(sum(part.applied for part in written), refused)

    def close(self) -> None:
        if self._threads is not None:
            self._threads.shutdown()
