"""Finds what an answer changes in the topic, keeps it on disk, and produces it only when the answer was complete.

Nothing of an answer that breaks off, has a key twice, or lacks too many rows reaches the topic.
"""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.ipc as ipc

from enrich.base.errors import Retryable
from enrich.base.folders import make_folder
from enrich.codecs.encoding import Encoder
from stores.keys import keys_of
from stores.rocks.errors import mapped_files
from sync_service.sources.known.rows import DIGEST, Known, KnownRows, digests_of
from sync_service.sources.polled.source import Extent, Reading

_SPOOL = pa.schema([("key", pa.binary()), ("value", pa.binary()), ("digest", pa.binary(DIGEST)), ("slot", pa.int64())])

Keys = npt.NDArray[np.uint64]
"""Hashes of keys."""


@dataclass(slots=True)
class Counts:
    """What a comparison found."""

    read: int = 0
    changed: int = 0
    """New or different rows."""
    missing: int = 0
    """Known keys that the source lacks."""
    seen: int = 0
    """Known keys that the source has."""
    rejected: int = 0
    """Rows that cannot become records. The topic's records of their keys stay."""
    reasons: dict[str, int] = field(default_factory=dict)

    def reject(self, reason: str, rows: int = 1) -> None:
        self.rejected += rows
        self.reasons[reason] = self.reasons.get(reason, 0) + rows


class Differences(AbstractContextManager["Differences"]):
    """Compares readings with the known rows. Its file is deleted on exit."""

    def __init__(
        self, known: KnownRows, encoder: Encoder, key: tuple[str, ...], directory: Path, *, largest: int
    ) -> None:
        self._known = known
        self._encoder = encoder
        self._key = key
        self._largest = largest
        self._path = directory / "differences.arrow"
        make_folder(directory)
        with mapped_files(directory):
            self._file = self._path.open("wb")
        self._writer = ipc.new_stream(self._file, _SPOOL)
        self._seen = np.zeros(known.slots, np.bool_)
        self._new: list[npt.NDArray[np.uint64]] = []
        self._rejected: list[npt.NDArray[np.uint64]] = []
        self.counts = Counts()
        self.has_all_keys = False
        """Whether a reading had every row's key."""
        self.without_record: tuple[int, int] | None = None
        """How many rows have a key and no record in the topic, with a fingerprint; None if not all keys were read.

        These are the rows that cannot become records. If it changes, there are new rows that the cursor did not show.
        """

    def compare(self, reading: Reading, checkpoint: Callable[[], None] = lambda: None) -> None:
        """Raises Retryable if a key occurs twice, and what the reading raises. Calls `checkpoint` for each batch."""
        if reading.extent is not Extent.changes:
            self._seen[:] = False
        before, self._new = self._new, []
        for batch in reading.batches:
            checkpoint()
            self.counts.read += batch.num_rows
            keys = keys_of(batch, self._key)
            with mapped_files(self._path):
                self._compare(keys, batch, reading)
        self._refuse_twice(keys_only=reading.extent is Extent.keys)
        if reading.extent is Extent.whole:
            self.without_record = _fingerprint(_joined(self._rejected))
        elif reading.extent is Extent.keys:
            written = np.setdiff1d(_joined(before), _joined(self._rejected))
            self.without_record = _fingerprint(np.setdiff1d(_joined(self._new), written))
        if reading.extent is not Extent.changes:
            self.has_all_keys = True
            self.counts.seen = int(self._seen.sum())
            self.counts.missing = self._known.rows - self.counts.seen

    @property
    def unseen(self) -> npt.NDArray[np.bool_]:
        """By slot of the known rows, whether the last reading of all keys was without it."""
        return ~self._seen

    def spare(self, slots: npt.NDArray[np.bool_]) -> int:
        """These are not deleted now. Returns how many that are."""
        spared = slots[: len(self._seen)] & ~self._seen
        self._seen |= spared
        count = sum(len(keys) for keys, _ in self._known.unseen(~spared)) if spared.any() else 0
        self.counts.missing -= count
        return count

    def delete_missing(self) -> None:
        """Adds a tombstone for each known key that was not seen."""
        with mapped_files(self._path):
            for keys, slots in self._known.unseen(self._seen):
                digests = np.zeros(len(keys), f"V{DIGEST}")
                self._spool(pa.array(keys, pa.binary()), pa.nulls(len(keys), pa.binary()), digests, slots)

    def batches(self) -> Iterator[pa.RecordBatch]:
        """All differences: key, value (null: a tombstone), digest, slot. Call it when everything was compared."""
        self._writer.close()
        self._file.close()
        with mapped_files(self._path), pa.OSFile(str(self._path)) as file:
            yield from ipc.open_stream(file)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._file.close()
        self._path.unlink(missing_ok=True)

    def _compare(self, keys: pa.BinaryArray, batch: pa.RecordBatch, reading: Reading) -> None:
        if keys.null_count:
            self.counts.reject("a part of the key is null", keys.null_count)
            has_key = keys.is_valid()
            keys, batch = keys.filter(has_key), batch.filter(has_key)
        names = keys.to_pylist()
        known = self._known.lookup(names)
        self._mark(known, keys)
        if reading.extent is Extent.keys:
            return
        rows = batch.select(list(reading.values))
        self._encoder.check(rows.schema)
        encoded = self._encoder.encode(rows)
        for reason in encoded.bad.values():
            self.counts.reject(reason)
        values = encoded.values
        digests = digests_of(values.fill_null(b"").to_pylist())
        differs = (known.slots < 0) | (known.digests != digests)
        is_record = values.is_valid().to_numpy(zero_copy_only=False)
        differs &= is_record
        sizes = pc.add(pc.binary_length(keys), pc.binary_length(values.fill_null(b""))).to_numpy()
        too_large = differs & (sizes > self._largest)
        if too_large.any():
            self.counts.reject(f"larger than the topic's limit of {self._largest} bytes", int(too_large.sum()))
        bad = keys.filter(pa.array((known.slots < 0) & (~is_record | too_large)))
        if len(bad):
            self._rejected.append(_hashes(bad))
        picked = np.flatnonzero(differs & ~too_large)
        if len(picked):
            self.counts.changed += len(picked)
            self._spool(keys.take(picked), values.take(picked), digests[picked], known.slots[picked])

    def _mark(self, known: Known, keys: pa.BinaryArray) -> None:
        is_known = known.slots >= 0
        slots = known.slots[is_known]
        if self._seen[slots].any() or len(np.unique(slots)) < len(slots):
            twice = next(i for i in np.flatnonzero(is_known).tolist() if self._is_twice(known.slots, i))
            raise _twice(keys[twice].as_py())
        self._seen[slots] = True
        unknown = keys.filter(pa.array(~is_known))
        if len(unknown):
            self._new.append(_hashes(unknown))

    def _is_twice(self, slots: npt.NDArray[np.int64], index: int) -> bool:
        return bool(self._seen[slots[index]]) or int((slots == slots[index]).sum()) > 1

    def _refuse_twice(self, *, keys_only: bool) -> None:
        """Only hashes of new keys are kept in memory. If two are equal, the keys themselves are compared."""
        hashes = np.sort(_joined(self._new))
        suspects = np.unique(hashes[1:][hashes[1:] == hashes[:-1]])
        if not len(suspects) or keys_only:
            return
        found: set[bytes] = set()
        self._file.flush()
        with mapped_files(self._path), pa.OSFile(str(self._path)) as file:
            for batch in _until_end(file):
                keys = batch.column(0)
                for index in np.flatnonzero(np.isin(_hashes(keys), suspects)).tolist():
                    key = keys[index].as_py()
                    if key in found:
                        raise _twice(key)
                    found.add(key)

    def _spool(
        self,
        keys: pa.BinaryArray,
        values: pa.BinaryArray,
        digests: npt.NDArray[np.void],
        slots: npt.NDArray[np.int64],
    ) -> None:
        digest_array = pa.FixedSizeBinaryArray.from_buffers(
            pa.binary(DIGEST), len(keys), [None, pa.py_buffer(digests.tobytes())]
        )
        columns = [keys, values, digest_array, pa.array(slots)]
        self._writer.write_batch(pa.RecordBatch.from_arrays(columns, schema=_SPOOL))


def _joined(keys: list[Keys]) -> Keys:
    return np.concatenate(keys) if keys else np.empty(0, np.uint64)


def _fingerprint(keys: Keys) -> tuple[int, int]:
    return len(keys), int(keys.sum(dtype=np.uint64))


def _hashes(keys: pa.BinaryArray) -> Keys:
    return pl.Series(pl.from_arrow(keys)).hash().to_numpy()


def _until_end(file: pa.NativeFile) -> Iterator[pa.RecordBatch]:
    """The batches of a stream whose end is not written yet."""
    reader = ipc.open_stream(file)
    while True:
        try:
            yield reader.read_next_batch()
        except (StopIteration, pa.ArrowInvalid):
            return


def _twice(key: bytes) -> Retryable:
    shown = key.decode("utf-8", "backslashreplace")
    return Retryable(
        f"two rows have the key {shown if len(shown) <= 60 else shown[:60] + '...'}",
        next_step="choose columns under `key` that are unique together, or remove one of the rows",
    )
