"""A snapshot on disk: opened by its manifest, and every byte is checked when it is read."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

from stores.errors import ConfigError, CorruptState
from stores.snapshots import manifest as manifests
from stores.snapshots.files import opened, read_versions
from stores.snapshots.manifest import Manifest, parse_manifest


@dataclass(frozen=True, slots=True)
class Snapshot:
    path: Path
    manifest: Manifest

    def versions(self) -> Iterator[pa.RecordBatch]:
        """All row versions (`ROW_VERSIONS`) in bounded batches, in no particular order.

        Raises CorruptState, at the end at the latest: publish nothing before it is exhausted.
        """
        for file in self.manifest.files:
            for batch in read_versions(self.path, file):
                self._require_below_positions(batch, file.name)
                yield batch

    def _require_below_positions(self, batch: pa.RecordBatch, file: str) -> None:
        # A version at or above a position would hide the topic's own version there.
        partitions, offsets = (batch.column(name).to_numpy() for name in ("partition", "offset"))
        ends = np.zeros(len(batch), np.int64)
        for partition, position in self.manifest.positions.items():
            ends[partitions == partition] = position
        if ((offsets < 0) | (offsets >= ends)).any():
            raise CorruptState(
                "a row version of the snapshot is outside its positions",
                where=str(self.path / file),
                next_step="use another one",
            )


def open_snapshot(path: Path) -> Snapshot:
    """Reads only the manifest. Raises ConfigError if there is none, CorruptState for a damaged one."""
    file = path / manifests.NAME
    try:
        with opened(file) as raw_file:
            raw = raw_file.read(manifests.LARGEST + 1)
    except OSError as error:
        raise ConfigError(
            f"there is no snapshot: {error.strerror}",
            where=str(file),
            next_step="name a directory that `enrich table export` made, or the one above all of them",
        ) from error
    if len(raw) > manifests.LARGEST:
        raise CorruptState("the snapshot's manifest is too large", where=str(file), next_step="use another one")
    return Snapshot(path, parse_manifest(raw, file))
