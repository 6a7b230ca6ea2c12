"""Snapshots that see what the log has told already: a transaction is in the log a moment before others see it, and as
long as a synchronous standby does not answer."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np
import numpy.typing as npt

from enrich.base.errors import Retryable
from stores.external.postgres.log.visibility import Visibility
from stores.external.postgres.reading import PostgresReader, PostgresSnapshot

_LOOKS = 50


@contextmanager
def snapshot_seeing(
    reader: PostgresReader, xids: npt.NDArray[np.int64], name: str, checkpoint: Callable[[], None] = lambda: None
) -> Iterator[tuple[PostgresSnapshot, tuple[str, str]]]:
    """Of the table of this name, with what it sees, and up to where the log has all of that. Raises Retryable if it
    does not come to see these transactions."""
    for _ in range(_LOOKS):
        with reader.snapshot(name) as snapshot:
            seen = snapshot.visible()
            if Visibility(seen[0]).sees(xids).all():
                yield snapshot, seen
                return
        checkpoint()
    raise Retryable("the table's newest changes cannot be seen yet", where=f"table {name}")
