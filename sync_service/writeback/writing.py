"""A batch to the store: quick retries for what passes at once, and a bad row found among good ones by halving."""

import time
from collections.abc import Callable

from enrich.errors import BadRecord, Retryable, Unreachable
from stores.external import VersionedRows, Written
from sync_service.backoff import Backoff

# A deadlock or a failover's first moments pass in less; everything longer waits without holding up other partitions.
_QUICK_TRIES = 3


Write = Callable[[VersionedRows], Written]


class RowWriter:
    """Writes rows to a store that answers, and says which rows it does not take."""

    def __init__(self, write: Write, sleep: Callable[[float], object] = time.sleep) -> None:
        self._write = write
        self._sleep = sleep
        self.retries = 0

    def write(self, rows: VersionedRows) -> Written:
        """Raises Retryable when the store is away or stays busy: part of the rows may then be written."""
        if not len(rows):
            return Written(0)
        try:
            return self._try(rows)
        except BadRecord as error:
            if len(rows) == 1:
                return Written(0, {0: error})
        middle = len(rows) // 2
        first = self.write(rows.take(range(middle)))
        second = self.write(rows.take(range(middle, len(rows))))
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
