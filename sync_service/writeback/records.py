"""Turns records into rows: decodes them, adds versions, and keeps the newest of each key in the batch."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from confluent_kafka import Message

from enrich.kafka.records import row_versions_of
from stores.external import VersionedRows
from stores.protocol import Decoder
from sync_service.writeback.generation import Generation
from sync_service.writeback.versions import Releases, Versions, versions_of


@dataclass(frozen=True)
class Read:
    """A batch of records as rows."""

    rows: VersionedRows
    messages: Sequence[Message]
    """The record of each row."""
    bad: Sequence[tuple[Message, str, int | None]]
    """Records that cannot become rows, the reason, and their version if they have one. Reasons hold no payload."""
    older: Callable[[Iterable[int]], "Read"]
    """For the given rows, which the store refused: the previous version of their keys, if the batch has one."""


class RecordReader:
    """Reads the records of one topic."""

    def __init__(
        self,
        decoder: Decoder,
        version_column: str | None,
        generation: Generation | None,
        *,
        keeps_releases: bool = True,
    ) -> None:
        """`keeps_releases`: the store compares releases. If not, all rows are of release 0."""
        self._keeps_releases = keeps_releases
        self.has_ignored_releases = False
        self._decoder = decoder
        self._version_column = version_column
        self._generation = generation

    def read(self, messages: Sequence[Message]) -> Read:
        without_key = [message for message in messages if message.key() is None]
        keyed = messages if not without_key else [message for message in messages if message.key() is not None]
        records = row_versions_of(keyed)
        bad: list[tuple[Message, str, int | None]] = [(message, "its key is null", None) for message in without_key]
        decoded = self._decoder.decode(records.column("value"))
        versions, releases, unversioned = versions_of(
            keyed, records, decoded.rows, self._version_column, self._generation
        )
        if releases is not None and not self._keeps_releases:
            self.has_ignored_releases, releases = True, None
        wrong = {**unversioned, **decoded.bad}
        for index, reason in sorted(wrong.items()):
            bad.append((keyed[index], reason, None if index in unversioned else int(versions[index])))
        batch = _Batch(records.column("key"), versions, releases, decoded.rows, keyed)
        return batch.read(_newest(batch.keys, versions, list(wrong), releases), bad, list(wrong))


@dataclass(frozen=True)
class _Batch:
    """All records of a batch."""

    keys: pa.BinaryArray
    versions: Versions
    releases: Releases
    rows: pa.StructArray
    messages: Sequence[Message]

    def read(self, places: Versions, bad: Sequence[tuple[Message, str, int | None]], wrong: Sequence[int]) -> Read:
        taken = pa.array(places)
        releases = None if self.releases is None else pa.array(self.releases[places])
        rows = VersionedRows(self.keys.take(taken), pa.array(self.versions[places]), self.rows.take(taken), releases)
        older = partial(self._older, places, wrong)
        return Read(rows, [self.messages[index] for index in places.tolist()], bad, older)

    def _older(self, places: Versions, wrong: Sequence[int], refused: Iterable[int]) -> Read:
        without = [*wrong, *(int(places[index]) for index in refused)]
        keys = self.keys.take(pa.array(without[len(wrong) :], pa.int64()))
        others = np.flatnonzero(~pc.is_in(self.keys, keys).to_numpy(zero_copy_only=False)).tolist()
        return self.read(_newest(self.keys, self.versions, [*without, *others], self.releases), [], without)


def _newest(keys: pa.BinaryArray, versions: Versions, wrong: list[int], releases: Releases = None) -> Versions:
    """The index of the record with the greatest version of each key; of equal versions that of the highest release, of
    equal releases the first one."""
    codes = pc.dictionary_encode(keys).indices.to_numpy()
    good = np.ones(len(keys), bool)
    good[wrong] = False
    indexes = np.flatnonzero(good)
    # Sorted by key, version, release and descending index: the last one of each key is the one to keep.
    of_release = () if releases is None else (releases[indexes],)
    order = indexes[np.lexsort((-indexes, *of_release, versions[indexes], codes[indexes]))]
    last = np.append(codes[order][1:] != codes[order][:-1], True) if len(order) else np.zeros(0, bool)
    return np.sort(order[last]).astype(np.int64)
