"""One segment as readers and merges use it: its records, its columns, and its versions as a source."""

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import pyarrow as pa

from stores.errors import CorruptState
from stores.segments.file import MappedFile, Written, damaged
from stores.segments.layout import ENTRY, FORMAT, SPLIT, VERSION
from stores.segments.loops.columns import Column, open_column
from stores.segments.loops.compiled import Bytes, Hashes, Integers, Records
from stores.segments.loops.hashing import hash_entries, hash_identity
from stores.segments.loops.probe import find
from stores.segments.sources import Chunk

_ENTRIES_AT_A_TIME = 1 << 16

_KNOWN: dict[str, pa.Schema] = {}
"""Columns by the text that names them in a segment, which takes longer to make than a small segment to open."""


@dataclass(frozen=True, slots=True)
class _Told:
    """A column whose errors name the file."""

    column: Column
    damaged: Callable[[], CorruptState]

    def take(self, rows: Integers) -> pa.Array:
        try:
            return self.column.take(rows)
        except (IndexError, pa.ArrowIndexError) as error:
            raise self.damaged() from error


class Segment:
    """A mapped file with some versions of a table's rows."""

    def __init__(self, directory: Path, written: Written, columns: pa.Schema, *, is_trusted: bool) -> None:
        """Raises FileNotFoundError if its file is gone, CorruptState if it cannot be used."""
        self.file = MappedFile(directory / written.name, written, is_trusted=is_trusted)
        self.written = written
        self._columns = columns
        facts = self.file.facts
        if (facts["format"], facts["hash"]) != (FORMAT, hash_identity()) or not _describes(facts["columns"], columns):
            raise damaged(self.file.path, "was written by another release, or for other columns")
        self.rows: int = facts["rows"]
        self.versions: int = facts["versions"]
        self.slots: Hashes = self.file.section("slots").view(np.uint32)
        self.entries: Records = self.file.section("entries").view(ENTRY)
        self.version_records: Records = self.file.section("versions").view(VERSION)
        self.keys: Bytes = self.file.section("keys")

    @property
    def key_bytes(self) -> int:
        return len(self.keys)

    @cached_property
    def columns(self) -> Sequence[Column]:
        """Raises CorruptState; `take` of a column may too."""
        sections = (self.file.section(f"column-{number}") for number in itertools.count())
        try:
            return [_Told(open_column(field.type, self.rows, sections), self.damaged) for field in self._columns]
        except IndexError as error:
            raise self.damaged() from error

    def hashes(self) -> Hashes:
        """The hashes of the keys, in the order of the entries. Raises CorruptState."""
        hashes = hash_entries(self.entries, self.keys)
        if len(hashes) != len(self.entries):
            raise self.damaged()
        return hashes

    @cached_property
    def prefix_lengths(self) -> Sequence[int]:
        """In a cidr table: the prefix lengths of its networks."""
        self._require_bounds(self.entries)
        lengths: list[int] = np.unique(self.keys[self.entries["key_start"]]).tolist()
        return lengths

    def find(self, hashes: Hashes, data: Bytes, starts: Integers, lengths: Integers, asked: Integers) -> Integers:
        """The entry numbers of the keys with the indexes `asked`; -1 if there is none. Raises CorruptState."""
        found = find(hashes, data, starts, lengths, asked, self.slots, self.entries, self.keys)
        if len(found) and found.min() < -1:
            raise self.damaged()
        return found

    def versions_of(self, entry: int) -> list[tuple[int, int, int, int]]:
        """(timestamp, partition, offset, row) of the versions of one key. Raises CorruptState."""
        record = self.entries[entry]
        start, count = int(record["versions_start"]), int(record["versions_count"])
        records = self.entries[entry : entry + 1] if count == 0 else self.version_records[start : start + count]
        if len(records) != max(count, 1) or (records["row"] >= self.rows).any():
            raise self.damaged()
        names = ("timestamp", "partition", "offset", "row")
        return list(zip(*(records[name].tolist() for name in names), strict=True))

    def _require_bounds(self, entries: Records) -> None:
        """Checks all entries at once. The loops of look-ups do not need this: they check entry by entry."""
        start, length = entries["key_start"], entries["key_length"]
        versions, count = entries["versions_start"], entries["versions_count"]
        is_good = (start >= 0) & (length >= 0) & (start <= len(self.keys) - length.astype(np.int64)) & (count >= 0)
        is_good &= (count == 0) | ((versions >= 0) & (versions <= len(self.version_records) - count.astype(np.int64)))
        if not is_good.all():
            raise self.damaged()

    def damaged(self) -> CorruptState:
        return damaged(self.file.path, "points beyond its own end")

    def chunks(self) -> Iterator[Chunk]:
        """All versions, in the order of the entries: see `Source`. Raises CorruptState."""
        for begin in range(0, len(self.entries), _ENTRIES_AT_A_TIME):
            entries = self.entries[begin : begin + _ENTRIES_AT_A_TIME]
            self._require_bounds(entries)
            counts = np.maximum(entries["versions_count"], 1).astype(np.int64)
            owner = np.repeat(np.arange(len(entries)), counts)
            places = np.arange(len(owner)) - np.repeat(np.cumsum(counts) - counts, counts)
            is_many = entries["versions_count"][owner] > 0
            record = np.zeros(len(owner), VERSION)
            alone = entries[owner[~is_many]]
            for name in ("offset", "timestamp", "row", "partition"):
                record[name][~is_many] = alone[name]
            record[is_many] = self.version_records[(entries["versions_start"][owner] + places)[is_many]]
            if (record["partition"] < 0).any() or (record["row"] >= self.rows).any():
                raise self.damaged()
            yield Chunk(
                data=self.keys,
                starts=entries["key_start"][owner],
                lengths=entries["key_length"][owner].astype(np.int64),
                partitions=record["partition"].astype(np.int64),
                offsets=record["offset"].astype(np.int64),
                timestamps=record["timestamp"].astype(np.int64),
                rows=record["row"].astype(np.int64),
                columns=self.columns,
                split=(entries["flags"][owner] & SPLIT).astype(bool),
            )


def _describes(text: str, columns: pa.Schema) -> bool:
    if _KNOWN.get(text) is not columns:
        if text != str(columns):
            return False
        _KNOWN[text] = columns
    return True
