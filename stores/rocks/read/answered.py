"""The result of each question of a look-up, in columns: made from raw rows all at once, or from single entries."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from stores.rocks.layout import HEADERS, TOMBSTONE, Entry, decode
from stores.table import TIMESTAMP, Status

Answer = tuple[Status, Entry | None]


@dataclass(frozen=True, slots=True)
class Answered:
    """One element per question. Null if no version answered; only hits have a payload."""

    status: pa.Array
    partition: pa.Array
    offset: pa.Array
    timestamp: pa.Array
    payload: pa.Array


def answered(answers: Sequence[Answer]) -> Answered:
    """From entries that were chosen one by one."""
    entries = [entry for _, entry in answers]
    hits = [entry if status is Status.HIT else None for status, entry in answers]
    return Answered(
        pa.array([status for status, _ in answers], pa.int8()),
        pa.array([None if entry is None else entry.partition for entry in entries], pa.int32()),
        pa.array([None if entry is None else entry.offset for entry in entries], pa.int64()),
        pa.array([None if entry is None else entry.timestamp for entry in entries], TIMESTAMP),
        pa.array([None if hit is None else hit.payload for hit in hits], pa.binary()),
    )


def newest(rows: Sequence[bytes | None]) -> Answered:
    """The newest versions, straight from the database's rows: without Python objects for a row's parts."""
    values = pa.array(rows, pa.binary())
    is_there = values.is_valid().to_numpy(zero_copy_only=False)
    headers = np.zeros(len(values), HEADERS)
    payloads = pa.array([], pa.binary())
    if is_there.any():
        split = headers_and_payloads(values.drop_null())
        if split is None:
            return answered([_newest(row) for row in rows])
        headers[is_there], payloads = split
    is_hit = is_there & (headers["flags"] & TOMBSTONE == 0)
    status = np.where(is_hit, Status.HIT, np.where(is_there, Status.DELETED, Status.MISS)).astype("i1")
    row_of = np.cumsum(is_there) - 1
    return Answered(
        pa.array(status),
        pa.array(headers["partition"], mask=~is_there),
        pa.array(headers["offset"], mask=~is_there),
        pa.array(headers["timestamp"], mask=~is_there).cast(TIMESTAMP),
        payloads.take(pa.array(row_of, mask=~is_hit)),
    )


def headers_and_payloads(values: pa.BinaryArray) -> tuple[npt.NDArray[np.void], pa.BinaryArray] | None:
    """Headers and payloads of rows with one version each. None if a row has several, or is incomplete."""
    size = HEADERS.itemsize
    _, offsets, data = values.buffers()
    bounds = np.frombuffer(offsets, np.int32)[values.offset : values.offset + len(values) + 1]
    if (np.diff(bounds) < size).any():
        return None
    content = np.frombuffer(data, np.uint8)[bounds[0] : bounds[-1]]
    bounds = bounds - bounds[0]
    places = bounds[:-1, None] + np.arange(size, dtype=np.int32)
    headers = content[places].view(HEADERS).ravel()
    if (headers["size"] + size != np.diff(bounds)).any():
        return None
    is_payload = np.ones(len(content), np.bool_)
    is_payload[places] = False
    # The payloads are what is left without the headers.
    ends = (bounds - size * np.arange(len(bounds))).astype(np.int32)
    buffers = [None, pa.py_buffer(ends), pa.py_buffer(content[is_payload])]
    return headers, pa.BinaryArray.from_buffers(pa.binary(), len(values), buffers)


def _newest(row: bytes | None) -> Answer:
    if row is None:
        return Status.MISS, None
    entry = max(decode(row))
    return (Status.DELETED if entry.flags & TOMBSTONE else Status.HIT), entry
