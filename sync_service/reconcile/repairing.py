"""Repairs differences: writes missing, older or altered rows from the topic, and deletes rows that it does not have."""

from collections.abc import Mapping

import numpy as np
import pyarrow as pa

from stores.external import VersionedRows, VersionedStore, Written
from sync_service.reconcile.differences import Differences
from sync_service.reconcile.digests import Numbers, found_in, hashes_of
from sync_service.reconcile.stamps import NONE, Stamp, Stamps, has_version
from sync_service.reconcile.topic import TopicReading
from sync_service.writeback.writing import RowWriter, Write

_ROWS = 1_000


class Repair:
    """Safe while the route runs: a row is replaced only if it still has the version that was found to be wrong."""

    def __init__(self, reading: TopicReading, store: VersionedStore, row: pa.StructType) -> None:
        self._reading = reading
        self._store = store
        self._row = row
        self.refused = 0
        """Rows that the store refused."""

    def write(self, differences: Differences, ends: Mapping[int, int]) -> None:
        is_there = has_version(differences.topic_versions)
        in_topic = differences.where(is_there)
        hashes = hashes_of(in_topic.keys.to_pylist())
        order = np.argsort(hashes)
        self._write_from_topic(hashes[order], in_topic.topic_versions[order], ends, in_topic.store_versions[order])
        only_stored = differences.where(~is_there)
        for start in range(0, len(only_stored), _ROWS):
            some = only_stored[start : start + _ROWS]
            stored = some.store_versions
            versions, releases = pa.array(np.maximum(stored["version"], 0)), pa.array(stored["release"])
            self._write(VersionedRows(some.keys, versions, pa.nulls(len(some), self._row), releases), stored)

    def write_all(self, hashes: Numbers, versions: Stamps, ends: Mapping[int, int]) -> None:
        """Writes, for each key (given by hash, sorted), the row that has the given version and release. The versions
        belong to a new generation, so the store has no newer ones."""
        self._write_from_topic(hashes, versions, ends, None)

    def _write_from_topic(
        self, hashes: Numbers, versions: Stamps, ends: Mapping[int, int], seen: Stamps | None
    ) -> None:
        if not len(hashes):
            return
        for part in self._reading.parts({}, ends):
            places, found = found_in(hashes, part.compared.hashes)
            indexes = np.flatnonzero(found & (versions[places] == part.compared.versions))
            if len(indexes):
                rows = part.rows.take(indexes.tolist())
                self._write(rows, None if seen is None else seen[places[indexes]])

    def _write(self, rows: VersionedRows, seen: Stamps | None) -> None:
        """`seen`: a row is only replaced while the store still has this version and release of it."""
        write: Write = self._store.write
        if seen is not None:
            by_key: dict[bytes, Stamp] = dict(zip(rows.keys.to_pylist(), seen.tolist(), strict=True))

            def write(some: VersionedRows) -> Written:
                before = [by_key[key] for key in some.keys.to_pylist()]
                versions = pa.array([None if each == NONE else each[0] for each in before], pa.int64())
                return self._store.write(some, versions, pa.array([release for _, release in before], pa.int64()))

        self.refused += len(RowWriter(write).write(rows).refused)
