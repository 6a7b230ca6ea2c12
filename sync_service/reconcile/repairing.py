"""Writes what differs: from the topic what is missing, older or altered; away with what the topic does not have."""

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa

from stores.external import VersionedRows, VersionedStore, Written
from sync_service.reconcile.comparing import Difference
from sync_service.reconcile.digests import Integers, Numbers, hashes_of
from sync_service.reconcile.topic import TopicReading
from sync_service.writeback.writing import RowWriter

_ROWS = 1_000


class Repair:
    """Safe beside a running route: a row is replaced only if it still has the version that was found to be wrong."""

    def __init__(self, reading: TopicReading, store: VersionedStore, row: pa.StructType) -> None:
        self._reading = reading
        self._store = store
        self._row = row
        self.written = 0
        self.refused = 0
        """Rows that the store does not take."""

    def write(self, differences: Sequence[Difference], ends: Mapping[int, int]) -> None:
        seen = {difference.key: difference.store_version for difference in differences}
        in_topic = [difference for difference in differences if difference.topic_version is not None]
        hashes = hashes_of([difference.key for difference in in_topic])
        versions = np.array([difference.topic_version for difference in in_topic], np.int64)
        order = np.argsort(hashes)
        self._write_from_topic(hashes[order], versions[order], ends, seen)
        alien = [difference for difference in differences if difference.topic_version is None]
        for start in range(0, len(alien), _ROWS):
            some = alien[start : start + _ROWS]
            rows = VersionedRows(
                pa.array([difference.key for difference in some], pa.binary()),
                pa.array([difference.store_version or 0 for difference in some], pa.int64()),
                pa.nulls(len(some), self._row),
            )
            self._count(rows, self._writer(rows, [difference.store_version for difference in some]).write(rows))

    def write_all(self, hashes: Numbers, versions: Integers, ends: Mapping[int, int]) -> None:
        """The row of each key (by the hash, sorted) that has this version: the versions are of a new generation, and
        the store has none that is newer."""
        self._write_from_topic(hashes, versions, ends, None)

    def _write_from_topic(
        self, hashes: Numbers, versions: Integers, ends: Mapping[int, int], seen: Mapping[bytes, int | None] | None
    ) -> None:
        if not len(hashes):
            return
        for part in self._reading.parts({}, ends):
            places = np.minimum(np.searchsorted(hashes, part.compared.hashes), len(hashes) - 1)
            wanted = (hashes[places] == part.compared.hashes) & (versions[places] == part.compared.versions)
            indexes = np.flatnonzero(wanted).tolist()
            if indexes:
                rows = part.rows.take(indexes)
                before = None if seen is None else [seen.get(part.keys[index]) for index in indexes]
                self._count(rows, self._writer(rows, before).write(rows))

    def _writer(self, rows: VersionedRows, seen: Sequence[int | None] | None) -> RowWriter:
        if seen is None:
            return RowWriter(self._store.write)
        by_key = dict(zip(rows.keys.to_pylist(), seen, strict=True))

        def replace(some: VersionedRows) -> Written:
            return self._store.write(some, pa.array([by_key[key] for key in some.keys.to_pylist()], pa.int64()))

        return RowWriter(replace)

    def _count(self, rows: VersionedRows, written: Written) -> None:
        self.written += len(rows) - len(written.refused)
        self.refused += len(written.refused)
