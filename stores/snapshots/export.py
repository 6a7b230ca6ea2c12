"""Writes a snapshot of a table, with a reader: the writer is not blocked and need not know."""

import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import pyarrow as pa

from stores.protocol import KeyKind
from stores.snapshots import manifest as manifests
from stores.snapshots.files import file_errors, write_versions
from stores.snapshots.folder import hidden_until_whole, name_of
from stores.snapshots.manifest import DataFile, Manifest, Partition
from stores.snapshots.snapshot import Snapshot
from stores.table import HistoryFloor, Offsets, Seq


@dataclass(frozen=True, slots=True)
class Origin:
    """Where the rows of a snapshot come from: what the engine itself does not know."""

    pipeline: str
    table: str
    topic: str
    definition: str
    seq: Seq
    taken_at: int
    complete_through: int
    notes: Mapping[str, str]


class TableState(Protocol):
    """The state of a table at one seq."""

    @property
    def key(self) -> KeyKind: ...
    @property
    def positions(self) -> Offsets: ...
    @property
    def floors(self) -> Mapping[int, HistoryFloor]: ...
    @property
    def rows(self) -> int: ...
    @property
    def digest(self) -> int: ...


class Source(Protocol):
    """All rows of a table at one seq."""

    @property
    def state(self) -> TableState: ...

    def newest(self) -> Iterator[pa.RecordBatch]:
        """The newest version of each key and partition. Raises CorruptState at the end if some are missing."""

    def past(self) -> Iterator[pa.RecordBatch]:
        """All other versions that are kept."""

    def quarantined(self) -> Iterator[pa.RecordBatch]:
        """The records that could not become versions."""


def export_table(
    source: Source, origin: Origin, location: Path, *, tell: Callable[[int], None] = lambda _: None
) -> Snapshot:
    """Writes a snapshot below the location. `tell` is called with the number of versions in each written batch.

    Raises CorruptState for a damaged store and Retryable for a full disk; then nothing is left that looks like one.
    """
    empty = _manifest(source.state, origin, [])
    folder = location / origin.pipeline / origin.table
    name = name_of(empty)
    with hidden_until_whole(folder, name) as work:
        files = [
            *write_versions(work, "newest", source.newest(), tell),
            *write_versions(work, "past", source.past(), tell),
            *write_versions(work, "quarantined", source.quarantined(), tell),
        ]
        manifest = _manifest(source.state, origin, files)
        path = work / manifests.NAME
        with file_errors(path), path.open("xb") as file:
            file.write(manifest.as_bytes())
            file.flush()
            os.fsync(file.fileno())
    return Snapshot(folder / name, manifest)


def _manifest(state: TableState, origin: Origin, files: list[DataFile]) -> Manifest:
    return Manifest(
        pipeline=origin.pipeline,
        table=origin.table,
        topic=origin.topic,
        definition=origin.definition,
        key=state.key,
        seq=origin.seq,
        taken_at=origin.taken_at,
        complete_through=origin.complete_through,
        rows=state.rows,
        digest=f"{state.digest:016x}",
        partitions=tuple(
            Partition(number, position, *state.floors.get(number, (None, None)))
            for number, position in sorted(state.positions.items())
        ),
        notes=dict(origin.notes),
        files=tuple(files),
    )
