"""Passes the store's publications on to the segments in order, also those from before the segments were open."""

import logging
import threading
from collections import deque
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING

from enrich.base.errors import Retryable
from stores.rocks import TableChange
from stores.rocks.state import TableState
from stores.table import Seq

if TYPE_CHECKING:
    from stores.segments import Change, Known, SegmentsWriter

_log = logging.getLogger(__name__)

_ROOM = 64 << 20
"""Bytes of rows that may wait while segments cannot be written. Beyond that the tables are built anew."""


class Follower:
    """A `Mirror` for as long as the segments are open. After a `failure` they must be opened again with a new one."""

    def __init__(self, tables: Collection[str]) -> None:
        self._tables = frozenset(tables)
        self._lock = threading.Lock()
        self._writer: SegmentsWriter | None = None
        self._waiting: deque[tuple[Seq, Mapping[str, TableChange]]] = deque()
        self._bytes = 0
        self._logged: str | None = None
        self.failure: Exception | None = None

    def follow(self, seq: Seq, changes: Mapping[str, TableChange]) -> None:
        with self._lock:
            if self.failure is not None:
                return
            mine = {name: change for name, change in changes.items() if name in self._tables}
            self._waiting.append((seq, mine))
            self._bytes += sum(map(_size, mine.values()))
            if self._writer is not None:
                self._pass_on(self._writer)
            if self._bytes > _ROOM:
                self._fail(Retryable("too many rows wait for segments that cannot be written"))

    def start(self, writer: "SegmentsWriter") -> None:
        """Passes on the waiting publications, and from now on each new one at once."""
        with self._lock:
            self._writer = writer
            self._pass_on(writer)

    def try_again(self) -> None:
        """Passes on the publications that a full disk has delayed."""
        with self._lock:
            if self._writer is not None and self._waiting and self.failure is None:
                self._pass_on(self._writer)

    def _pass_on(self, writer: "SegmentsWriter") -> None:
        while self._waiting:
            seq, changes = self._waiting[0]
            try:
                if seq.counter != writer.seq.counter + 1:
                    # A publication whose write failed after it was on disk: its changes are not known here.
                    raise Retryable(f"publication {seq.counter} came after publication {writer.seq.counter}")
                writer.publish(seq, {name: _change(change) for name, change in changes.items()})
            except Exception as error:  # noqa: BLE001 - the store, which calls this, would take it for its own error
                if isinstance(error, Retryable) and seq.counter == writer.seq.counter + 1:
                    # Meanwhile readers of these tables use the store: it is ahead of the segments.
                    if self._logged is None:
                        _log.warning("segments cannot be written; it is tried again", extra={"reason": str(error)})
                    self._logged = str(error)
                else:
                    self._fail(error)
                return
            self._waiting.popleft()
            self._bytes -= sum(map(_size, changes.values()))
            self._logged = None

    def _fail(self, error: Exception) -> None:
        _log.warning("segments are opened again", extra={"reason": str(error)})
        self.failure = error
        self._waiting.clear()


def _change(change: TableChange) -> "Change":
    from stores.segments import Change

    state, came = change.state, change.came
    versions, rows = (None, None) if came is None else (came.versions, came.rows)
    lost = "its rows were loaded anew" if change.is_replaced else None
    through, load = state.complete_through, state.table_id
    return Change(state.positions, state.floors, through, versions, rows, lost, buried=state.buried, load=load)


def _size(change: TableChange) -> int:
    return 0 if change.came is None else int(change.came.versions.nbytes + change.came.rows.nbytes)


def known_of(tables: Mapping[str, TableState]) -> "Mapping[str, Known]":
    """The store's state of its tables, as the segments' writer takes it."""
    from stores.segments import Known

    return {
        name: Known(state.positions, state.floors, state.complete_through, buried=state.buried, load=state.table_id)
        for name, state in tables.items()
    }
