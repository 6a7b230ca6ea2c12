"""The life of the segments beside a store: opened in the background, merged, checked, and built where they are missing.

One thread does it all, so that the agent's loop never waits for it; bases are made by processes of their own. Whatever
goes wrong here costs speed and nothing else: a table without segments is answered from the store.
"""

import logging
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from enrich.base.errors import CorruptState, Retryable
from enrich.config import Access
from enrich.host.mirror.bases import MakeBase
from enrich.host.mirror.follower import Follower, known_of
from enrich.host.mirror.opened import OpenedSegments
from enrich.host.mirror.trouble import Trouble
from stores.protocol import Clock, TableSpec
from stores.rocks import RocksStore
from stores.rocks.state import StoreState

if TYPE_CHECKING:
    from stores.segments import Stats

_log = logging.getLogger(__name__)

_TURN_S = 0.05
_CHECK_EVERY_S = 1.0
_PATIENCE_S = 20
_FIRST_LOADS_S = 60
"""So long first loads go before the engine, which takes two seconds of a core, or twenty where it must be compiled."""


@dataclass(frozen=True)
class Mirrored:
    """A table that is kept in segments."""

    spec: TableSpec
    access: Access = Access.mapped
    """auto: as long as all tables together fit the room."""


class SegmentsKeeper:
    """Beside one store, which must be open for longer than this."""

    def __init__(
        self,
        store: RocksStore,
        directory: Path,
        tables: Mapping[str, Mirrored],
        make_base: MakeBase,
        clock: Clock,
        *,
        room: int = 0,
        prepare: Callable[[Callable[[], bool]], None] | None = None,
    ) -> None:
        """`room`: bytes that all tables may take for those with `auto` to be among them. `prepare`: what is to be done
        before the engine is used for the first time."""
        self._store = store
        self._directory = directory
        self._tables = dict(tables)
        self._make_base = make_base
        self._clock = clock
        self._room = room
        self._prepare = prepare
        self._began_s = time.monotonic()
        self._opened: OpenedSegments | None = None
        self._trouble = Trouble()
        self._suspected = threading.Event()
        self._stopping = threading.Event()
        # From before the first publication on: segments of a former agent may fit what was there at the start.
        self._begun = self._follow()
        self._thread = threading.Thread(target=self._live, name="segments", daemon=True)
        if tables:
            self._thread.start()

    def suspect(self) -> None:
        """Leaves word, from any thread, that somebody found a segment damaged: all are read."""
        self._suspected.set()

    def remarks(self) -> Mapping[str, str]:
        """The tables that have no segments, or slow ones, for a reason that people should know."""
        opened, note = self._opened, self._trouble.note
        if opened is not None:
            return opened.remarks()
        return {} if note is None else dict.fromkeys(self._tables, f"it is read from RocksDB, without segments: {note}")

    def stats(self) -> "Mapping[str, Stats | None]":
        """What the tables take; None for those that are read from the store."""
        opened = self._opened
        if opened is None:
            return dict.fromkeys(self._tables)
        missing, found = opened.writer.to_build, opened.writer.stats()
        return {name: None if name in missing else found[name] for name in self._tables}

    def close(self) -> None:
        """Takes seconds: a merge may take minutes, and is left alone, as it is by kill -9."""
        self._stopping.set()
        if self._tables:
            self._thread.join(_PATIENCE_S)

    def _follow(self) -> tuple[Follower, StoreState]:
        follower = Follower(self._tables)
        return follower, self._store.mirror(follower)

    def _live(self) -> None:
        try:
            while not self._stopping.wait(_TURN_S):
                self._turn()
            if self._opened is not None:
                self._opened.close()
        except Exception:  # noqa: BLE001 - the thread's top: a bug is logged, and the store answers for all tables
            _log.exception("this is a bug in enrich; there are no segments until the agent is started anew")

    def _turn(self) -> None:
        if self._trouble.is_waiting() or self._loads_go_before():
            return
        try:
            if self._opened is None:
                self._make_ready()
                self._opened = self._open()
            if self._opened.follower.failure is not None:
                self._begin_anew()
            else:
                self._look_after(self._opened)
        except Exception as error:  # noqa: BLE001 - the store answers for all tables meanwhile
            self._trouble.met(error, "segments cannot be kept now")
            if isinstance(error, CorruptState):
                self._suspected.set()
            if self._opened is None or not isinstance(error, Retryable):
                self._begin_anew()
        else:
            self._trouble.is_over()

    def _loads_go_before(self) -> bool:
        if self._prepare is None or time.monotonic() - self._began_s >= _FIRST_LOADS_S:
            return False
        return not all(self._store.tables[name].positions for name in self._tables)

    def _make_ready(self) -> None:
        if self._prepare is not None:
            self._prepare(self._stopping.is_set)
            self._prepare = None

    def _open(self) -> OpenedSegments:
        from stores.segments import SegmentsWriter

        follower, state = self._begun
        specs = {name: table.spec for name, table in self._tables.items()}
        writer = SegmentsWriter(self._directory, specs, state.seq, known_of(state.tables), self._clock)
        follower.start(writer)
        limited = [name for name, table in self._tables.items() if table.access is Access.auto]
        return OpenedSegments(writer, follower, self._make_base, self._room, limited)

    def _begin_anew(self) -> None:
        """From what the store has now; segments that still fit it are taken over."""
        if self._opened is not None:
            self._opened.close()
        self._opened = None
        self._begun = self._follow()

    def _look_after(self, opened: OpenedSegments) -> None:
        if opened.seconds_since_check() >= _CHECK_EVERY_S or self._suspected.is_set():
            whole = self._suspected.is_set()
            self._suspected.clear()
            opened.follower.try_again()
            opened.check(whole=whole)
        opened.take_bases()
        while not self._stopping.is_set() and opened.merge():
            opened.take_bases()
