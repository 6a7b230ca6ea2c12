"""Snapshots for tests that damage them, made without a store."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256
from pathlib import Path

import pyarrow as pa

from stores.protocol import KeyKind
from stores.snapshots import Manifest, Origin, Snapshot, export_table
from stores.table import HistoryFloor, RowVersion, Seq, row_versions

ORIGIN = Origin("plays", "users", "users.v1", "d" * 16, Seq("ab" * 16, 0, 7), 1_700_000_000_123, 1_700_000_000_000, {})


@dataclass
class State:
    positions: Mapping[int, int]
    key: KeyKind = KeyKind.EXACT
    floors: Mapping[int, HistoryFloor] = field(default_factory=dict)
    rows: int = 0
    digest: int = 0


@dataclass
class Listed:
    """A table that is read whole, as lists."""

    state: State
    versions: Sequence[RowVersion]
    older: Sequence[RowVersion] = ()

    def newest(self) -> Iterator[pa.RecordBatch]:
        for start in range(0, len(self.versions), 100):
            yield row_versions(self.versions[start : start + 100])

    def past(self) -> Iterator[pa.RecordBatch]:
        if self.older:
            yield row_versions(self.older)

    def quarantined(self) -> Iterator[pa.RecordBatch]:
        return iter(())


def make_snapshot(location: Path, rows: int = 250, at: int = 0) -> Snapshot:
    """`at`: milliseconds later than others."""
    newest = [RowVersion(b"key-%d" % n, n % 2, n, n, None if n % 7 == 0 else b"value %d" % n) for n in range(rows)]
    past = [RowVersion(b"key-%d" % n, n % 2, n + rows, n, b"before") for n in range(20)]
    return export_table(
        Listed(State({0: 3 * rows, 1: 3 * rows}), newest, past),
        replace(ORIGIN, taken_at=ORIGIN.taken_at + at),
        location,
    )


def sign(snapshot: Snapshot, manifest: Manifest) -> None:
    """Writes a manifest that vouches for the files as they are now: what somebody who wants to harm would do."""
    files = []
    for file in manifest.files:
        content = (snapshot.path / file.name).read_bytes()
        files.append(replace(file, length=len(content), sha256=sha256(content).hexdigest()))
    (snapshot.path / "manifest.json").write_bytes(replace(manifest, files=tuple(files)).as_bytes())


def read_all(path: Path) -> list[pa.RecordBatch]:
    from stores.snapshots import open_snapshot

    return list(open_snapshot(path).versions())
