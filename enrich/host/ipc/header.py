"""The store's header: the agent's state for all readers on the host, in a file of fixed size that both map.

Two slots are written in turn, each with a version and a checksum. So a reader always finds a whole one, even if the
writer dies while it writes the other. The file is allocated in full when it is made: a full disk later cannot stop a
heartbeat. It is never truncated or replaced while readers map it; a new store has a new file, which readers notice by
its inode.
"""

import json
import mmap
import os
import struct
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from enrich.base.errors import ConfigError
from stores.files import mapped_files
from stores.pieces import joined, taken
from stores.table import Seq

_SLOT_SIZE = 256 * 1024
_SLOT_COUNT = 2
_FRAME = struct.Struct("<QII")  # version, length of the content, CRC-32 of version and content

_ROOM = _SLOT_SIZE - _FRAME.size
FORMAT = 2
"""Must be raised with each change of what is written here, fields included: stores of agents with another one have
another directory."""
_CUT_TO = (200, 80, 20)
"""Lengths in characters to which reasons are cut, one after the other, until the header fits."""


@dataclass(frozen=True)
class TableState:
    """One table, as the agent knows it at the moment of the header's seq."""

    ready: bool = False
    complete_through: int | None = None
    rows: int = 0
    quarantined: int = 0
    """Records that could not become rows, as the store counts them."""
    split_keys: int = 0
    """Keys that are in two partitions, which is a fault of the topic. The version with the latest time answers."""
    reason: str | None = None
    """Why it is not ready, or what is wrong although it is."""
    next_try: int | None = None
    """When the agent (by its clock) retries what failed. Until then the table is set aside, and its rows answer as of
    complete_through. None: it is not set aside."""
    topic_id: str | None = None
    """The id of the topic that its rows came from, as of the header's seq. A topic that is recreated has another id."""
    progress: Mapping[str, float] = field(default_factory=dict)
    """While it loads or catches up: records so far, records per second, and the records and seconds still to come."""

    @property
    def is_set_aside(self) -> bool:
        return self.next_try is not None

    def tried_again(self, now_ms: float) -> str:
        """When a table that is set aside is retried, as text for people."""
        left_s = ((self.next_try or 0) - now_ms) / 1000
        return "it is being tried again" if left_s <= 0 else f"tried again in {left_s:.0f} s"


@dataclass(frozen=True)
class Header:
    """What readers need to know between look-ups, without a request to the agent."""

    store_id: str
    generation: int
    counter: int
    heartbeat_ms: int
    pid: int
    started: int
    """Clock tick since boot in which the process started: it tells the process from a later one with the same id."""
    pid_namespace: int
    """To a reader in another namespace the process id means nothing: there only the heartbeat counts."""
    tables: Mapping[str, TableState] = field(default_factory=dict)

    @property
    def seq(self) -> Seq:
        return Seq(self.store_id, self.generation, self.counter)


class HeaderWriter:
    """The agent's side. Only the process that holds the store's lock may use it."""

    def __init__(self, path: Path) -> None:
        """Raises Retryable while the disk is full."""
        size = _SLOT_SIZE * _SLOT_COUNT
        with mapped_files(path):
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                os.posix_fallocate(descriptor, 0, size)
                self._map = mmap.mmap(descriptor, size)
            finally:
                os.close(descriptor)
        newest = _newest(self._map)
        self._version = 0 if newest is None else newest[0]
        self._lines: dict[str, tuple[TableState, bytes]] = {}
        """Of each table the state that was written last, encoded."""

    def write(self, header: Header) -> None:
        """Cuts reasons if those of all tables do not fit. Raises ConfigError for too many tables: nothing is damaged,
        and making the store anew would not help."""
        content = self._content(header)
        for length in _CUT_TO:
            if len(content) <= _ROOM:
                break
            content = self._content(_with_short_reasons(header, length))
        if len(content) > _ROOM:
            raise ConfigError(
                f"an agent cannot keep {len(header.tables)} tables: their state does not fit into its header",
                next_step="use fewer tables per pipeline, or shorter names",
            )
        self._version += 1
        start = _SLOT_SIZE * (self._version % _SLOT_COUNT)
        # First the content, then the frame with its checksum. A reader that sees them out of step finds the checksum
        # wrong and takes the other slot.
        self._map[start + _FRAME.size : start + _FRAME.size + len(content)] = content
        self._map[start : start + _FRAME.size] = _frame(self._version, content)

    def close(self) -> None:
        self._map.close()

    def _content(self, header: Header) -> bytes:
        """A line of what concerns all tables, one of their names, and then the state of each of them."""
        states = []
        for name, state in header.tables.items():
            known = self._lines.get(name)
            if known is None or known[0] is not state:
                known = self._lines[name] = state, _line(vars(state))
            states.append(known[1])
        head = {**vars(header), "tables": FORMAT}
        return b"\n".join((_line(head), _line(list(header.tables)), joined(states)))


class HeaderReader:
    """A reader's side. Raises FileNotFoundError when no agent has made the file yet."""

    def __init__(self, path: Path) -> None:
        self._path = path
        with mapped_files(path):
            descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            self._inode = os.fstat(descriptor).st_ino
            # Mapping beyond the end of a file that is still being allocated would kill the process on access.
            if os.fstat(descriptor).st_size < _SLOT_SIZE * _SLOT_COUNT:
                raise FileNotFoundError(f"{path} is still being made")
            self._map = mmap.mmap(descriptor, _SLOT_SIZE * _SLOT_COUNT, prot=mmap.PROT_READ)
        finally:
            os.close(descriptor)
        self._names: tuple[bytes, Mapping[str, int]] = b"[]", {}
        """As they were read last, encoded, and the place of each: they hardly ever change."""

    def read(self) -> Header | None:
        """The newest whole state, of an agent of another release without tables; None when the agent has written none
        yet."""
        newest = _newest(self._map)
        if newest is None:
            return None
        content = newest[1]
        head_end = content.find(b"\n")
        head = json.loads(content if head_end < 0 else content[:head_end])
        if head["tables"] != FORMAT:
            return _of_another_release(head)
        names_end = content.index(b"\n", head_end + 1)
        encoded = content[head_end + 1 : names_end]
        if self._names[0] != encoded:
            self._names = encoded, {name: place for place, name in enumerate(json.loads(encoded))}
        return Header(**{**head, "tables": _States(content, names_end + 1, self._names[1])})

    def is_replaced(self) -> bool:
        """Whether the path now has another file, or none: then this one is no longer written."""
        try:
            return self._path.stat().st_ino != self._inode
        except FileNotFoundError:
            return True

    def close(self) -> None:
        self._map.close()


class _States(Mapping[str, TableState]):
    """Decodes a table's state when somebody wants to know it: most readers want that of few tables."""

    def __init__(self, content: bytes, start: int, places: Mapping[str, int]) -> None:
        self._content = content
        self._start = start
        self._places = places
        self._known: dict[str, TableState] = {}

    def __getitem__(self, name: str) -> TableState:
        if name not in self._known:
            encoded = taken(self._content, self._start, len(self._places), self._places[name])
            self._known[name] = TableState(**json.loads(encoded))
        return self._known[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)


def _of_another_release(head: Mapping[str, Any]) -> Header | None:
    """Which process it is, for `doctor`. None if it says that otherwise."""
    known = {one.name for one in fields(Header)} & head.keys()
    try:
        return Header(**{**{name: head[name] for name in known}, "tables": {}})
    except TypeError:
        return None


def _line(content: Any) -> bytes:
    return json.dumps(content, separators=(",", ":")).encode()


def _with_short_reasons(header: Header, length: int) -> Header:
    tables = {
        name: state if state.reason is None else replace(state, reason=state.reason[:length])
        for name, state in header.tables.items()
    }
    return replace(header, tables=tables)


def _frame(version: int, content: bytes) -> bytes:
    checksum = zlib.crc32(content, zlib.crc32(version.to_bytes(8, "little")))
    return _FRAME.pack(version, len(content), checksum)


def _newest(mapped: mmap.mmap) -> tuple[int, bytes] | None:
    """The version and content of the newest slot that is whole."""
    frames = [(_FRAME.unpack_from(mapped, _SLOT_SIZE * slot), _SLOT_SIZE * slot) for slot in range(_SLOT_COUNT)]
    for (version, length, check), start in sorted(frames, reverse=True):
        if version == 0 or length > _ROOM:
            continue
        content = mapped[start + _FRAME.size : start + _FRAME.size + length]
        if _frame(version, content) == _FRAME.pack(version, length, check):
            return version, content
    return None
