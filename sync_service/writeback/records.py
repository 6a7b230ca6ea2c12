"""Records to rows: decoded, with their versions, the newest of each key in the batch."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from confluent_kafka import Message

from enrich.kafka.records import row_versions_of
from stores.external import VersionedRows
from stores.protocol import Decoder
from sync_service.writeback.generation import Generation
from sync_service.writeback.versions import Versions, versions_of


@dataclass(frozen=True)
class Read:
    """A batch of records as rows."""

    rows: VersionedRows
    messages: Sequence[Message]
    """The record of each row."""
    bad: Sequence[tuple[Message, str, int | None]]
    """Records that cannot become rows, why, and their version where they have one. The reasons hold no payload."""


class RecordReader:
    """Reads the records of one topic."""

    def __init__(self, decoder: Decoder, version_column: str | None, generation: Generation | None) -> None:
        self._decoder = decoder
        self._version_column = version_column
        self._generation = generation

    def read(self, messages: Sequence[Message]) -> Read:
        without_key = [message for message in messages if message.key() is None]
        keyed = messages if not without_key else [message for message in messages if message.key() is not None]
        records = row_versions_of(keyed)
        bad: list[tuple[Message, str, int | None]] = [(message, "its key is null", None) for message in without_key]
        decoded = self._decoder.decode(records.column("value"))
        versions, unversioned = versions_of(keyed, records, decoded.rows, self._version_column, self._generation)
        wrong = {**unversioned, **decoded.bad}
        for index, reason in sorted(wrong.items()):
            bad.append((keyed[index], reason, None if index in unversioned else int(versions[index])))
        newest = _newest(records.column("key"), versions, list(wrong))
        places = pa.array(newest)
        rows = VersionedRows(records.column("key").take(places), pa.array(versions[newest]), decoded.rows.take(places))
        return Read(rows, [keyed[index] for index in newest.tolist()], bad)


def _newest(keys: pa.BinaryArray, versions: Versions, wrong: list[int]) -> Versions:
    """The index of the record with the greatest version of each key, the first of those with the same."""
    codes = pc.dictionary_encode(keys).indices.to_numpy()
    good = np.ones(len(keys), bool)
    good[wrong] = False
    indexes = np.flatnonzero(good)
    # By key, then version, then backwards in place: the last of each key is what is wanted.
    order = indexes[np.lexsort((-indexes, versions[indexes], codes[indexes]))]
    last = np.append(codes[order][1:] != codes[order][:-1], True) if len(order) else np.zeros(0, bool)
    return np.sort(order[last]).astype(np.int64)
