"""Builds one segment from row versions of any source: a publication, other segments, a whole table.

First each version gets the entry of its key. Then it is decided which versions of an entry are kept. Last the rows of
these are written, one chunk at a time. Memory holds only a few dozen bytes per version; large arrays are in unnamed
files, which the kernel can write out when memory is short.
"""

import functools
import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from stores.errors import Fatal
from stores.files import mapped_files
from stores.segments.file import FileWriter, Written
from stores.segments.layout import ENTRY, FORMAT, MOST_ROWS, VERSION, slot_count
from stores.segments.loops.columns import new_column
from stores.segments.loops.compiled import Flags, Integers, Records
from stores.segments.loops.grouping import (
    add_keys,
    bury,
    count_versions,
    fill_slots,
    group,
    mark_split,
    number_rows,
    settle,
    write_versions,
)
from stores.segments.loops.hashing import hash_identity, hash_keys
from stores.segments.sources import Chunk, Source
from stores.table import HistoryFloor, Offsets

_IN_MEMORY = 1 << 20
"""Up to so many bytes of a column or an array are held in memory; more go to a temporary file."""
_PIECE = 1 << 20
_HELD_VERSIONS = 1 << 12


def build_segment(
    path: Path,
    columns: pa.Schema,
    sources: Sequence[Source],
    floors: Mapping[int, HistoryFloor],
    buried: Offsets | None = None,
) -> Written:
    """Writes a segment with all versions of the sources that a look-up above the floors may return.

    `buried`: keys of which only a tombstone below these offsets is left are left out. No older segment may have them.
    Raises Retryable if the disk is full; then nothing is left behind.
    """
    writer = FileWriter(path)
    try:
        return _Building(columns, sources, path.parent).write(writer, floors, buried or {})
    except BaseException:
        writer.abandon()
        raise


class _Building:
    def __init__(self, columns: pa.Schema, sources: Sequence[Source], directory: Path) -> None:
        self._columns = columns
        self._sources = sources
        self._directory = directory
        count = sum(source.versions for source in sources)
        # A publication's chunks are held in memory; those of larger sources are read again for each pass.
        self._held = [chunk for source in sources for chunk in source.chunks()] if count <= _HELD_VERSIONS else None
        if count > MOST_ROWS:
            raise Fatal(
                f"a table of {count} row versions is too large for a segment", next_step="give it `access: rocks`"
            )
        self._entry_of: Integers = self._array(count, np.int64)
        self._partitions: Integers = self._array(count, np.int64)
        self._offsets: Integers = self._array(count, np.int64)
        self._timestamps: Integers = self._array(count, np.int64)
        self._kept: Flags = self._array(count, np.bool_)
        self._new_rows: Integers = self._array(count, np.int64)

    def write(self, writer: FileWriter, floors: Mapping[int, HistoryFloor], buried: Offsets) -> Written:
        grouped, keys, slots = self._grouped()
        entries, versions, rows = self._settled(grouped, floors, buried)
        if len(slots) > 2 * slot_count(len(entries)) or len(entries) < len(grouped):
            slots = self._array(slot_count(len(entries)), np.uint32)
            fill_slots(entries, keys, slots)
        for name, array in (("slots", slots), ("entries", entries), ("versions", versions), ("keys", keys)):
            writer.add(name, [array.view(np.uint8).data])
        self._write_columns(writer)
        return writer.finish(
            {
                "format": FORMAT,
                "hash": hash_identity(),
                "rows": rows,
                # Stored, because counting them later would read all entries.
                "versions": len(versions) + int(np.count_nonzero(entries["versions_count"] == 0)),
                "columns": str(self._columns),
            }
        )

    def _array(self, length: int, kind: npt.DTypeLike) -> npt.NDArray[Any]:
        return _scratch_array(self._directory, length, kind)

    def _chunks(self) -> Iterator[tuple[slice, Chunk]]:
        at = 0
        passed = (chunk for source in self._sources for chunk in source.chunks())
        for chunk in passed if self._held is None else self._held:
            yield slice(at, at + len(chunk.starts)), chunk
            at += len(chunk.starts)

    def _grouped(self) -> tuple[Records, npt.NDArray[np.uint8], npt.NDArray[np.uint32]]:
        total = len(self._entry_of)
        entries = self._array(total, ENTRY)
        keys = self._array(sum(source.key_bytes for source in self._sources), np.uint8)
        slots = self._array(slot_count(total), np.uint32)
        count, used = 0, 0
        for where, chunk in self._chunks():
            hashes = hash_keys(chunk.data, chunk.starts, chunk.lengths)
            entry_of = self._entry_of[where]
            count, used = add_keys(
                hashes, chunk.data, chunk.starts, chunk.lengths, slots, entries, keys, count, used, entry_of
            )
            self._partitions[where] = chunk.partitions
            self._offsets[where] = chunk.offsets
            self._timestamps[where] = chunk.timestamps
            self._new_rows[where] = chunk.rows
        return entries[:count], keys[:used], slots

    def _settled(
        self, entries: Records, floors: Mapping[int, HistoryFloor], buried: Offsets
    ) -> tuple[Records, Records, int]:
        """The entries that are kept, with their row numbers, the versions section, and the number of rows."""
        begins = self._array(len(entries) + 1, np.int64)
        count_versions(self._entry_of, begins)
        order = group(self._entry_of, begins)
        last_partition = int(self._partitions.max(initial=0))
        counts = settle(
            begins, order, self._partitions, self._offsets, self._timestamps,
            *_dense(floors, last_partition), entries, self._kept,
        )  # fmt: skip
        for where, chunk in self._chunks():
            if chunk.split is not None:
                mark_split(self._entry_of[where], chunk.split, entries)
        if buried:
            below = np.array([buried.get(partition, 0) for partition in range(last_partition + 1)], np.int64)
            left = bury(entries, begins, counts, self._new_rows, below)
            entries, counts = entries[:left], counts[:left]
        rows = number_rows(self._kept, self._new_rows)
        versions = self._array(int(counts[counts > 1].sum()), VERSION)
        write_versions(
            begins, counts, order, self._partitions, self._offsets, self._timestamps, self._new_rows, entries, versions
        )
        return entries, versions, rows

    def _write_columns(self, writer: FileWriter) -> None:
        with ExitStack() as held:
            streams: list[tempfile.SpooledTemporaryFile[bytes]] = []

            def new_stream() -> "tempfile.SpooledTemporaryFile[bytes]":
                streams.append(held.enter_context(_spool(self._directory)))
                return streams[-1]

            writers = [new_column(field.type, new_stream) for field in self._columns]
            for where, chunk in self._chunks():
                rows = chunk.rows[self._kept[where]]
                for column_writer, column in zip(writers, chunk.columns, strict=True):
                    column_writer.write(column.take(rows))
            for column_writer in writers:
                column_writer.finish()
            for number, stream in enumerate(streams):
                stream.seek(0)
                writer.add(f"column-{number}", iter(functools.partial(stream.read, _PIECE), b""))


def _spool(directory: Path) -> "tempfile.SpooledTemporaryFile[bytes]":
    return tempfile.SpooledTemporaryFile(_IN_MEMORY, dir=str(directory))  # the caller closes it


def _dense(floors: Mapping[int, HistoryFloor], last_partition: int) -> tuple[Integers, Integers]:
    """Floors as arrays by partition; 0 for a partition without a floor."""
    offsets = np.zeros(last_partition + 1, np.int64)
    timestamps = np.zeros(last_partition + 1, np.int64)
    for partition, floor in floors.items():
        if partition <= last_partition:
            offsets[partition], timestamps[partition] = floor
    return offsets, timestamps


def _scratch_array(directory: Path, length: int, kind: npt.DTypeLike) -> npt.NDArray[Any]:
    """An array of zeros; a large one in an unnamed file. Raises Retryable if the disk has no room for it."""
    size = length * np.dtype(kind).itemsize
    if size <= _IN_MEMORY:
        return np.zeros(length, kind)
    with mapped_files(directory), tempfile.TemporaryFile(dir=directory) as file:
        # Allocate all of it now: a page that finds no room on disk later kills the process.
        os.posix_fallocate(file.fileno(), 0, size)
        return np.asarray(np.memmap(file, kind, "r+", shape=(length,)))
