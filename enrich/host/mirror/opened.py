"""Segments that are open for writing: builds those missing, and decides which tables with `access: auto` have any."""

import logging
import threading
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING

from enrich.base.errors import BadRecord, CorruptState
from enrich.host.mirror.bases import BaseOrder, MakeBase, TooLarge
from enrich.host.mirror.follower import Follower
from enrich.host.trouble import Trouble
from stores.backoff import Backoff
from stores.clock import SystemClock

if TYPE_CHECKING:
    from stores.segments import SegmentsWriter, TableBuild, Written

_log = logging.getLogger(__name__)

_AT_ONCE = 1
"""How many bases are built at once: the memory budget has a share for one."""
_GROWN = 1.25
"""Segments are withdrawn only when all together exceed the room by this factor. Otherwise they would come and go."""


class OpenedSegments:
    """For one thread."""

    def __init__(
        self, writer: "SegmentsWriter", follower: Follower, make_base: MakeBase, room: int, limited: Sequence[str]
    ) -> None:
        """`limited`: the tables that have segments only while all tables together fit the room."""
        self.writer = writer
        self.follower = follower
        self._make_base = make_base
        self._room = room
        self._limited = limited
        self._running: dict[str, Future[tuple[TableBuild, Written | TooLarge]]] = {}
        self._troubles: dict[str, Trouble] = defaultdict(new_trouble)
        self._merge_troubles: dict[str, Trouble] = defaultdict(new_trouble)
        self.refused: dict[str, str] = {}
        """Table -> why it gets no segments until it is loaded anew."""
        self._stopping = threading.Event()
        self._threads = ThreadPoolExecutor(max_workers=_AT_ONCE, thread_name_prefix="base")
        self._checked_s = float("-inf")

    def seconds_since_check(self) -> float:
        return time.monotonic() - self._checked_s

    def check(self, *, whole: bool) -> None:
        """Begins to build segments that are missing or damaged, and withdraws those that have grown too large.
        `whole`: reads every byte."""
        self._checked_s = time.monotonic()
        for name, error in self.writer.failures().items():
            self._troubles[name].met(error, "segments of a table cannot be written now", table=name)
        for name, why in self.writer.check(whole=whole).items():
            is_refused = self.refused.get(name) == why
            if name not in self._running and not is_refused and not self._troubles[name].is_waiting():
                self._begin(name, why)
        self._withdraw_largest()

    def remarks(self) -> Mapping[str, str]:
        """Table -> why it is read from the store, or is slower than it could be."""
        found = {name: f"its segments cannot be merged: {note}" for name, note in _notes(self._merge_troubles)}
        found |= {
            name: f"it is read from RocksDB, its segments cannot be built: {note}"
            for name, note in _notes(self._troubles)
        }
        return {**found, **self.refused}

    def merge(self) -> bool:
        """Merges one table's segments if a merge is due. Returns whether one was."""
        return any(self._merge(name) for name in self.writer.names)

    def take_bases(self) -> None:
        """Makes the finished bases visible to readers."""
        for name, running in list(self._running.items()):
            if running.done():
                del self._running[name]
                self._take(name, running)

    def close(self) -> None:
        self._stopping.set()
        self._threads.shutdown(wait=True, cancel_futures=True)
        for running in self._running.values():
            if not running.cancelled() and running.exception() is None:
                self.writer.abandon(running.result()[0])

    def _merge(self, name: str) -> bool:
        trouble = self._merge_troubles[name]
        if trouble.is_waiting():
            return False
        try:
            is_merged = self.writer.merge_table(name)
        except CorruptState as error:
            self.writer.withdraw(name, f"it is damaged: {error}")  # the next check builds it anew
            return False
        except Exception as error:  # noqa: BLE001 - whatever it is, it does not concern other tables
            trouble.met(error, "segments of a table cannot be merged now", table=name)
            return False
        if is_merged:
            trouble.is_over()
        return is_merged

    def _begin(self, name: str, why: str) -> None:
        _log.info("segments are built", extra={"table": name, "reason": why})
        self._running[name] = self._threads.submit(self._build, name)

    def _build(self, name: str) -> "tuple[TableBuild, Written | TooLarge]":
        """In its turn: only from here on the table's new rows have to be kept, each publication in a file."""
        build = self.writer.build(name)
        try:
            return build, self._make_base(BaseOrder(name, build.files, self._room_of(name)), self._stopping.is_set)
        except BaseException:
            self.writer.abandon(build)
            raise

    def _take(self, name: str, running: "Future[tuple[TableBuild, Written | TooLarge]]") -> None:
        try:
            build, base = running.result()
            if isinstance(base, TooLarge):
                self.writer.abandon(build)
                self._refuse(name, _does_not_fit(base.at_least, self._room_of(name) or 0))
            elif build.is_abandoned:
                self.writer.abandon(build)  # its rows were loaded anew meanwhile
            else:
                self.writer.take(build, base)
                self.refused.pop(name, None)
                self._troubles[name].is_over()
                _log.info("segments are shown", extra={"table": name, "bytes": base.stamp.size})
        except BadRecord as error:
            self._refuse(name, str(error))
        except Exception as error:  # noqa: BLE001 - whatever it is, it does not concern other tables
            self._troubles[name].met(error, "segments of a table cannot be built now", table=name)

    def _refuse(self, name: str, why: str) -> None:
        _log.warning("a table has no segments", extra={"table": name, "reason": why})
        self.refused[name] = why
        self.writer.withdraw(name, why)

    def _room_of(self, name: str) -> int | None:
        """How many bytes the other tables leave for it; None if it is not limited."""
        if name not in self._limited:
            return None
        taken = sum(stats.bytes for other, stats in self.writer.stats().items() if other != name)
        return max(0, self._room - taken)

    def _withdraw_largest(self) -> None:
        bytes_of = {name: stats.bytes for name, stats in self.writer.stats().items()}
        largest = max(self._limited, key=lambda name: bytes_of[name], default=None)
        if largest is not None and bytes_of[largest] and sum(bytes_of.values()) > self._room * _GROWN:
            self._refuse(largest, _does_not_fit(bytes_of[largest], self._room_of(largest) or 0))


def new_trouble() -> Trouble:
    return Trouble(SystemClock(), Backoff(first_s=0.5, longest_s=30))


def _notes(troubles: Mapping[str, Trouble]) -> Iterator[tuple[str, str]]:
    for name, trouble in list(troubles.items()):
        note = trouble.note
        if note is not None:
            yield name, note


def _does_not_fit(size: int, room: int) -> str:
    return (
        f"it is read from RocksDB: its segments take {size / 2**20:,.0f} MiB or more, and memory.budget "
        f"leaves {room / 2**20:,.0f} MiB for tables with `access: auto`"
    )
