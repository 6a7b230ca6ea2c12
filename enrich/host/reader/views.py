"""Tables as a reader of the agent sees them: engines' views, with what the agent says of them."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from enrich.base.errors import CorruptState
from enrich.host.on_demand.wire import LONGEST_KEY
from enrich.host.reader.demand import Demands
from stores.clock import SystemClock
from stores.freshness import CLOCK_STEP_MS, ViewWrapper
from stores.keys import key_bytes
from stores.protocol import Quarantined, TableView
from stores.rocks import QuarantineState
from stores.rocks.read.view import RocksTable
from stores.rocks.read.whole import WholeTable
from stores.table import Found, Offsets, RowVersion, Status

_MISSING_AGAIN_S, _OLD_AGAIN_S = 5.0, 30.0
"""After this a key that is looked up still is told again. One that is old answers meanwhile."""

Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class FreshView(ViewWrapper):
    """A view with the agent's newest complete_through, which advances even if no row changes."""

    view: TableView
    through: int | None
    suspect: Callable[[], None]
    """Reports to the agent that the store or the segments are damaged, so that it checks and rebuilds them."""
    raw: Callable[[], RocksTable]
    """The table's rows as stored in RocksDB, as of this seq or a later one."""

    @property
    def complete_through(self) -> int | None:
        return self.through

    def lookup(
        self,
        keys: pa.Array,
        columns: Sequence[str],
        *,
        as_of: pa.Array | None = None,
        pin: Offsets | None = None,
    ) -> Found:
        with self._reporting_damage():
            return self.view.lookup(keys, columns, as_of=as_of, pin=pin)

    def scan(self, prefix: bytes = b"") -> Iterator[RowVersion]:
        with self._reporting_damage():
            yield from self.raw().scan(prefix)

    def versions(self, key: bytes) -> Sequence[RowVersion]:
        with self._reporting_damage():
            return self.raw().versions(key)

    @contextmanager
    def _reporting_damage(self) -> Iterator[None]:
        try:
            yield
        except CorruptState:
            self.suspect()
            raise

    @property
    def quarantine(self) -> QuarantineState:
        return self.raw().quarantine

    def quarantined(self) -> Iterator[Quarantined]:
        return self.raw().quarantined()

    def whole(self) -> WholeTable:
        return self.raw().whole()


@dataclass(frozen=True)
class OnDemandView(FreshView):
    """A view that tells what it does not have, and what of it is used and old."""

    name: str
    refresh_ms: int
    demands: Demands

    def lookup(
        self,
        keys: pa.Array,
        columns: Sequence[str],
        *,
        as_of: pa.Array | None = None,
        pin: Offsets | None = None,
    ) -> Found:
        found = super().lookup(keys, columns, as_of=as_of, pin=pin)
        now_ms, loaded_ms = SystemClock().now_ms(), found.timestamp.cast(pa.int64())
        # One of the future is from before the clock was set back: nobody knows how old it is, but the agent may.
        is_older = pc.less(loaded_ms, now_ms - self.refresh_ms)
        is_old = pc.fill_null(pc.or_(is_older, pc.greater(loaded_ms, now_ms + CLOCK_STEP_MS)), False)
        missing = may_be_loaded(found)
        self._tell(keys, missing, _MISSING_AGAIN_S)
        self._tell(keys, np.asarray(is_old) & ~missing, _OLD_AGAIN_S)
        return found

    def _tell(self, keys: pa.Array, concerned: Mask, again_s: float) -> None:
        if concerned.any():
            self.demands.note(self.name, distinct(keys, concerned), min(again_s, self.refresh_ms / 1000))


def may_be_loaded(found: Found) -> Mask:
    """Of which keys there is no row, and the source might have one."""
    status = found.status.to_numpy(zero_copy_only=False)
    return np.asarray((status == Status.MISS) | (status == Status.DELETED), np.bool_)


def distinct(keys: pa.Array, chosen: Mask) -> list[bytes]:
    """The chosen ones, each once, as the agent is told them: those that may have a row."""
    wanted = key_bytes(keys).filter(pa.array(chosen)).unique()
    kept: list[bytes] = wanted.filter(pc.less_equal(pc.binary_length(wanted), LONGEST_KEY)).to_pylist()
    return kept
