"""The manifest: all tables of a store at one seq, and their segments. It is replaced as a whole, never changed."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from stores.errors import CorruptState, Retryable
from stores.files import mapped_files
from stores.segments.file import Stamp, Written
from stores.segments.loops.hashing import checksum
from stores.table import HistoryFloor, Offsets, Seq

_NAME = "manifest"
_FORMAT = 2


@dataclass(frozen=True, slots=True)
class TableState:
    """One table at one seq."""

    segments: Sequence[Written] = ()
    """The oldest first. The newest segment with a key has its latest version."""
    positions: Offsets = field(default_factory=dict)
    floors: Mapping[int, HistoryFloor] = field(default_factory=dict)
    complete_through: int | None = None
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


def write_manifest(directory: Path, manifest: Manifest) -> None:
    """Replaces the old manifest atomically. Raises Retryable if the disk is full."""
    document = {
        "format": _FORMAT,
        "seq": manifest.seq,
        "boot": manifest.boot,
        "tables": {name: _table_document(table) for name, table in manifest.tables.items()},
    }
    body = json.dumps(document, separators=(",", ":")).encode()
    new = directory / f"{_NAME}.new"
    with mapped_files(directory):
        new.write_bytes(b"%016x\n" % checksum(np.frombuffer(body, np.uint8)) + body)
        new.replace(directory / _NAME)


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


def parse_manifest(directory: Path, raw: bytes) -> Manifest:
    """Raises CorruptState for one that is damaged or has another release's format."""
    check, _, body = raw.partition(b"\n")
    if check != b"%016x" % checksum(np.frombuffer(body, np.uint8)):
        raise _unusable(directory, "is damaged")
    document: dict[str, Any] = json.loads(body)
    if document["format"] != _FORMAT:
        raise _unusable(directory, f"has format {document['format']}, this release knows {_FORMAT}")
    tables = {name: _table(fields) for name, fields in document["tables"].items()}
    return Manifest(Seq(*document["seq"]), document["boot"], tables)


def _unusable(directory: Path, what: str) -> CorruptState:
    return CorruptState(
        f"the manifest {what}", where=str(directory / _NAME), next_step="start its agent anew: it builds the segments"
    )


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
