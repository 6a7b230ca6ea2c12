"""Keeps the segments of a store: opens them in the background, merges, checks, and builds those that are missing.

One thread does this, so that the agent's loop never waits for it; bases are made in processes of their own. Errors here
cost nothing but speed: a table without segments is answered from the store.
"""

import logging
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from enrich.base.errors import CorruptState, Retryable
from enrich.config import Access, Pipeline
from enrich.config.sections.host.memory_shares import memory_shares
from enrich.host.ipc.store_paths import StorePaths
from enrich.host.load.processes import LoadProcesses
from enrich.host.memory_use import reader_sizes
from enrich.host.mirror.bases import BaseOrder, BaseTask, CompileTask, MakeBase, TooLarge, make_base
from enrich.host.mirror.follower import Follower, known_of
from enrich.host.mirror.opened import OpenedSegments, new_trouble
from stores.protocol import Clock, TableSpec
from stores.rocks import RocksStore
from stores.rocks.state import StoreState

if TYPE_CHECKING:
    from stores.segments import Stats, Written

_log = logging.getLogger(__name__)

_FEW_ROWS = 10_000
"""Up to so many rows, a base is built in the agent: a process takes a second, most of it to import the engine."""
_TURN_S = 0.05
_CHECK_EVERY_S = 1.0
_PATIENCE_S = 20
_FIRST_LOADS_S = 60
"""How long the engine's import waits for first loads: it takes a core two seconds, or twenty if it must compile."""


@dataclass(frozen=True)
class Mirrored:
    """A table that is kept in segments."""

    spec: TableSpec
    access: Access = Access.mapped
    """auto: it has segments as long as all tables together fit the room."""


class SegmentsKeeper:
    """The segments of one store, which must be closed after this."""

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
        """`room`: bytes that the segments of all tables may take before those with `auto` lose theirs. `prepare` is
        called before the engine is used for the first time."""
        self._store = store
        self._directory = directory
        self._tables = dict(tables)
        self._make_base = make_base
        self._clock = clock
        self._room = room
        self._prepare = prepare
        self._began_s = time.monotonic()
        self._opened: OpenedSegments | None = None
        self._trouble = new_trouble()
        self._suspected = threading.Event()
        self._stopping = threading.Event()
        # Follow from before the first publication: segments of the previous agent may fit the store as it is now.
        self._begun = self._follow()
        self._thread = threading.Thread(target=self._live, name="segments", daemon=True)
        if tables:
            self._thread.start()

    def suspect(self) -> None:
        """May be called from any thread when a segment looks damaged: all segments will be checked."""
        self._suspected.set()

    def remarks(self) -> Mapping[str, str]:
        """Table -> why it has no segments or slow ones, if people should know."""
        opened, note = self._opened, self._trouble.note
        if opened is not None:
            return opened.remarks()
        return {} if note is None else dict.fromkeys(self._tables, f"it is read from RocksDB, without segments: {note}")

    def stats(self) -> "Mapping[str, Stats | None]":
        """The size of each table's segments; None for tables that are read from the store."""
        opened = self._opened
        if opened is None:
            return dict.fromkeys(self._tables)
        missing, found = opened.writer.to_build, opened.writer.stats()
        return {name: None if name in missing else found[name] for name in self._tables}

    def close(self) -> None:
        """Takes seconds at most. A merge may take minutes: it is abandoned, which is as safe as kill -9."""
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
        """Opens the segments again with the store's current state; segments that still fit it are kept."""
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


def segments_beside(
    store: RocksStore,
    pipeline: Pipeline,
    paths: StorePaths,
    specs: Mapping[str, TableSpec],
    processes: LoadProcesses,
    clock: Clock,
) -> SegmentsKeeper:
    """The segments of all tables that have any: in how much memory, and who builds their bases. Must be called before
    the first publication."""

    def made(order: BaseOrder, should_stop: Callable[[], bool]) -> "Written | TooLarge":
        if store.tables[order.table].rows <= _FEW_ROWS:
            return make_base(paths.rows, specs, reader_sizes(shares), order)
        base: Written | TooLarge = processes.do(BaseTask(order), should_stop)
        return base

    def prepare(should_stop: Callable[[], bool]) -> None:
        from stores.segments import are_loops_kept, compile_loops

        if not are_loops_kept():
            processes.do(CompileTask(), should_stop)
        compile_loops()  # reads them from disk; done here, so that no publication waits for it

    shares = memory_shares(pipeline.memory)
    return SegmentsKeeper(
        store,
        paths.segments,
        mirrored_tables(pipeline, specs, shares.mapped),
        made,
        clock,
        room=shares.mapped,
        prepare=prepare,
    )


def mirrored_tables(pipeline: Pipeline, specs: Mapping[str, TableSpec], room: int) -> Mapping[str, Mirrored]:
    """Those with `access: mapped`; those with `auto` only if there is any room: the engine itself takes memory."""
    ways = (Access.mapped, Access.auto) if room else (Access.mapped,)
    access = {name: table.access for name, table in pipeline.tables.items()}
    return {name: Mirrored(specs[name], access[name]) for name in specs if access[name] in ways}
