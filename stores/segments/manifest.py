"""The manifest: all tables of a store at one seq, and their segments. It is replaced as a whole, never changed.

Its first line has the seq, its second the names of all tables, then each table has a text of its own. Each begins with
its checksum, so that what one table costs does not grow with the number of tables.
"""

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from stores.errors import CorruptState, Retryable
from stores.files import mapped_files
from stores.pieces import joined, taken
from stores.segments.file import Stamp, Written
from stores.segments.loops.hashing import checksum
from stores.table import HistoryFloor, Offsets, Seq

_NAME = "manifest"
_FORMAT = 5


@dataclass(frozen=True, slots=True)
class TableState:
    """One table at one seq."""

    segments: Sequence[Written] = ()
    """The oldest first. The newest segment with a key has its latest version."""
    positions: Offsets = field(default_factory=dict)
    floors: Mapping[int, HistoryFloor] = field(default_factory=dict)
    complete_through: int | None = None
    buried: Offsets = field(default_factory=dict)
    """See `Known`. For the writer only: it is not in the file."""
    load: int = 0
    """See `Known`."""
    absent: str | None = None
    """Why it cannot be read now and must be built first; None if it can."""


@dataclass(frozen=True, slots=True)
class Manifest:
    seq: Seq
    boot: str
    """The boot id of the system start in which the segments were written or verified."""
    tables: Mapping[str, TableState]


class ManifestFile:
    """The writer's side. Of many tables only those that changed are encoded anew."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._lines: dict[str, tuple[TableState, bytes]] = {}

    def write(self, manifest: Manifest) -> None:
        """Replaces the old manifest atomically. Raises Retryable if the disk is full."""
        head, names = {"format": _FORMAT, "seq": manifest.seq, "boot": manifest.boot}, list(manifest.tables)
        tables = joined([self._line_of(name, table) for name, table in manifest.tables.items()])
        new = self._directory / f"{_NAME}.new"
        with mapped_files(self._directory):
            new.write_bytes(b"\n".join((_line(head), _line(names), tables)))
            new.replace(self._directory / _NAME)

    def _line_of(self, name: str, table: TableState) -> bytes:
        known = self._lines.get(name)
        if known is None or known[0] is not table:
            known = self._lines[name] = table, _line(_table_document(table))
        return known[1]


def read_raw_manifest(directory: Path) -> bytes:
    """The manifest's bytes, for a quick comparison with the last ones. Raises Retryable if there is none."""
    path = directory / _NAME
    try:
        with mapped_files(path):
            return path.read_bytes()
    except FileNotFoundError:
        raise Retryable(
            "there are no segments yet, or their directory was deleted",
            where=str(directory),
            next_step="wait for an agent",
        ) from None


class ManifestParser:
    """A reader's side. It looks only at its own tables, and of those only at what changed."""

    def __init__(self, directory: Path, tables: Collection[str] | None = None) -> None:
        """`tables`: which are needed; all by default."""
        self._directory = directory
        self._needed = tables
        self._names: tuple[bytes | None, int, Mapping[str, int]] = None, 0, {}
        """The second line as it was read last, how many names it has, and the places of the needed ones."""
        self._lines: dict[str, tuple[bytes, TableState]] = {}

    def parse(self, raw: bytes) -> Manifest:
        """Has only the tables that are needed. Raises CorruptState for a manifest that is damaged there or has another
        release's format."""
        head_end = raw.find(b"\n")
        names_end = raw.find(b"\n", head_end + 1)
        head = self._checked(raw[: max(head_end, 0)])
        if head.get("format") != _FORMAT:
            raise self._unusable(f"has format {head.get('format')}, this release knows {_FORMAT}")
        names = raw[head_end + 1 : max(names_end, 0)]
        if names != self._names[0]:
            known, needed = self._checked(names), self._needed
            needed_at = {name: place for place, name in enumerate(known) if needed is None or name in needed}
            self._names = names, len(known), needed_at
        _, count, places = self._names
        tables = {name: self._table(name, taken(raw, names_end + 1, count, at)) for name, at in places.items()}
        return Manifest(Seq(*head["seq"]), head["boot"], tables)

    def _table(self, name: str, line: bytes) -> TableState:
        known = self._lines.get(name)
        if known is None or known[0] != line:
            known = self._lines[name] = line, _table(self._checked(line))
        return known[1]

    def _checked(self, line: bytes) -> Any:
        check, _, body = line.partition(b" ")
        if check != _check(body):
            raise self._unusable("is damaged")
        return json.loads(body)

    def _unusable(self, what: str) -> CorruptState:
        return CorruptState(
            f"the manifest {what}",
            where=str(self._directory / _NAME),
            next_step="start its agent anew: it builds the segments",
        )


def parse_manifest(directory: Path, raw: bytes) -> Manifest:
    """All of it, once: see `ManifestParser.parse`."""
    return ManifestParser(directory).parse(raw)


def _line(content: Any) -> bytes:
    body = json.dumps(content, separators=(",", ":")).encode()
    return _check(body) + b" " + body


def _check(body: bytes) -> bytes:
    return b"%016x" % checksum(np.frombuffer(body, np.uint8))


def _table_document(table: TableState) -> dict[str, Any]:
    return {
        "segments": [[one.name, one.checksum, *one.stamp] for one in table.segments],
        "positions": sorted(table.positions.items()),
        "floors": [[partition, *floor] for partition, floor in sorted(table.floors.items())],
        "complete_through": table.complete_through,
        "load": table.load,
        "absent": table.absent,
    }


def _table(fields: Mapping[str, Any]) -> TableState:
    return TableState(
        segments=tuple(Written(name, check, Stamp(*stamp)) for name, check, *stamp in fields["segments"]),
        positions={int(partition): int(offset) for partition, offset in fields["positions"]},
        floors={int(p): HistoryFloor(int(offset), int(time)) for p, offset, time in fields["floors"]},
        complete_through=fields["complete_through"],
        load=fields["load"],
        absent=fields["absent"],
    )
