"""RocksDB as this engine uses it: explicit options, no write-ahead log, errors of our own tree.

The options are necessary. Without `raw_mode` and without options for "default", opening would unpickle what it finds
in a directory; with a write-ahead log, a secondary would serve stale rows even after it has caught up (RocksDB #14444).
"""

import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from rocksdict import (
    AccessType,
    BlockBasedOptions,
    Cache,
    DBCompressionType,
    IngestExternalFileOptions,
    Options,
    Rdict,
    RdictIter,
    ReadOptions,
    SstFileWriter,
    WriteBatch,
    WriteOptions,
)

from stores.errors import Fatal
from stores.rocks.errors import mapped

_MIB = 1 << 20
_KEYS_AT_A_TIME = 1024
"""A multi-get pins the block of each of its keys: 10,000 keys at once took 40 MiB beside the cache (measured)."""
_ROWS_OF_A_PIECE = 1 << 14
_BYTES_OF_A_PIECE = 8 << 20
_MEMORY = {
    "block_cache": "rocksdb.block-cache-usage",
    "memtables": "rocksdb.cur-size-all-mem-tables",
    "table_readers": "rocksdb.estimate-table-readers-mem",
}
"""Index and filters count as table readers, not as block cache: they grow with the rows."""


@dataclass(frozen=True, slots=True)
class Sizes:
    """Memory that a database may take, in bytes."""

    block_cache: int = 32 * _MIB
    write_buffer: int = 16 * _MIB
    bulk: int = 32 * _MIB
    """Rows that one bulk load holds at a time."""


def _options(sizes: Sizes, *, create: bool = False) -> Options:
    blocks = BlockBasedOptions()
    blocks.set_block_cache(Cache(sizes.block_cache))
    blocks.set_bloom_filter(10, False)
    blocks.set_format_version(5)
    # Index and filters stay outside the cache: inside, a small cache collapses reads (7.6 K/s against 215 K/s).
    blocks.set_cache_index_and_filter_blocks(False)
    options = Options(raw_mode=True)
    options.create_if_missing(create)
    options.set_block_based_table_factory(blocks)
    options.set_compression_type(DBCompressionType.lz4())
    options.set_write_buffer_size(sizes.write_buffer)
    # Open every file with the database: a missing or truncated file shows at once, and a secondary keeps the files
    # that a compaction of the primary removes.
    options.set_max_open_files(-1)
    # Each publication is one small file in level 0, and every compaction of these rewrites the level below. RocksDB
    # first joins files that are small beside that level. So a larger level costs small publications nothing (20 rows)
    # or a fifth (200 rows), and those of 10,000 rows take a half to a third of the work (1 M and 3 M rows, measured).
    # Universal compaction writes less, but a bulk load's removal of old rows would rewrite all tables.
    options.set_level_zero_file_num_compaction_trigger(16)
    # With so many files a flush would wait for compaction. The default of 20 is reached in 0.1 s when the CPU is busy;
    # every publication then waited 1 to 2 s (measured, beside a bulk load). Instead readers probe a few more files.
    options.set_level_zero_slowdown_writes_trigger(200)
    options.set_level_zero_stop_writes_trigger(400)
    options.set_level_compaction_dynamic_level_bytes(True)
    options.set_max_bytes_for_level_base(16 * _MIB)
    options.set_target_file_size_base(_MIB)
    options.set_target_file_size_multiplier(2)  # 32 MiB in the last level: readers hold every file open
    options.set_max_background_jobs(2)
    options.set_max_file_opening_threads(2)
    options.set_manifest_preallocation_size(64 * 1024)  # 4 MiB otherwise, which a small disk may not have
    options.set_max_manifest_file_size(4 * _MIB)
    options.set_max_log_file_size(_MIB)
    options.set_keep_log_file_num(2)
    options.set_stats_dump_period_sec(0)
    options.set_stats_persist_period_sec(0)
    return options


class Database:
    """One open database: the primary, or a secondary that follows it."""

    def __init__(self, rdict: Rdict, path: Path) -> None:
        self._rdict = rdict
        self._is_open = True
        self._compactions = 0
        self._idle = threading.Condition()
        self.path = path

    @classmethod
    def primary(cls, path: Path, sizes: Sizes, *, create: bool = False) -> "Database":
        """Raises CorruptState for one that cannot be opened, Fenced while another process writes it."""
        with mapped(path):
            options = _options(sizes, create=create)
            return cls(Rdict(str(path), options, column_families={"default": options}), path)

    @classmethod
    def secondary(cls, path: Path, own_path: Path, sizes: Sizes) -> "Database":
        with mapped(path):
            options = _options(sizes)
            access = AccessType.secondary(str(own_path))
            return cls(Rdict(str(path), options, column_families={"default": options}, access_type=access), path)

    def get_many(self, keys: list[bytes]) -> list[bytes | None]:
        """The rows of the keys, None for a missing one. Fastest with sorted keys."""
        rows: list[bytes | None] = []
        with mapped(self.path):
            for start in range(0, len(keys), _KEYS_AT_A_TIME):
                some = cast("list[Any]", keys[start : start + _KEYS_AT_A_TIME])
                rows += cast("list[bytes | None]", self._rdict.get(some))
        return rows

    def write(
        self,
        puts: Mapping[bytes, bytes],
        deletes: Sequence[bytes] = (),
        ranges: Sequence[tuple[bytes, bytes]] = (),
    ) -> None:
        """One atomic write, in memory until `flush`: first deletes the ranges, then the keys, then puts the rows."""
        batch = WriteBatch(raw_mode=True)
        with mapped(self.path):
            for begin, end in ranges:
                batch.delete_range(begin, end)
            for key in deletes:
                batch.delete(key)
            for key, value in puts.items():
                batch.put(key, value)
            self._rdict.write(batch, _without_log())

    def flush(self) -> None:
        """Returns once everything written is on disk."""
        with mapped(self.path):
            self._rdict.flush(True)

    def ingest(self, files: Sequence[Path]) -> None:
        options = IngestExternalFileOptions()
        options.set_move_files(True)
        with mapped(self.path):
            self._rdict.ingest_external_file([str(file) for file in files], options)

    def compact(self, begin: bytes, end: bytes) -> None:
        """Frees the space of deleted rows, which may take minutes. `close` in another thread ends it at once: it is
        useful, but never necessary."""
        with self._idle:
            if not self._is_open:
                return
            self._compactions += 1
        try:
            with mapped(self.path):
                self._rdict.compact_range(begin, end)
        finally:
            with self._idle:
                self._compactions -= 1
                self._idle.notify_all()

    def memory(self) -> dict[str, int]:
        """Bytes that RocksDB holds in memory now, by purpose."""
        with mapped(self.path):
            return {name: self._rdict.property_int_value(label) or 0 for name, label in _MEMORY.items()}

    def files(self) -> list[tuple[bytes, bytes, int]]:
        """First key, last key and size in bytes of each file."""
        with mapped(self.path):
            return [(file["start_key"], file["end_key"], file["size"]) for file in self._rdict.live_files()]

    def catch_up(self) -> None:
        with mapped(self.path):
            self._rdict.try_catch_up_with_primary()

    def scan(self, begin: bytes, end: bytes) -> Iterator[tuple[bytes, bytes]]:
        """All rows with `begin` <= key < `end`. Raises CorruptState where RocksDB's own iteration just ends."""
        with mapped(self.path):
            cursor = self._cursor(end)
            cursor.seek(begin)
            while cursor.valid():
                yield cursor.key(), cursor.value()
                cursor.next()
            cursor.status()

    def scan_in_pieces(self, begin: bytes, end: bytes) -> Iterator[tuple[list[bytes], list[bytes]]]:
        """The same in lists of keys and of values, of bounded length and size: half the work per row."""
        with mapped(self.path):
            cursor = self._cursor(end)
            cursor.seek(begin)
            keys: list[bytes] = []
            values: list[bytes] = []
            size = 0
            while cursor.valid():
                value = cursor.value()
                keys.append(cursor.key())
                values.append(value)
                size += len(value)
                if len(keys) == _ROWS_OF_A_PIECE or size >= _BYTES_OF_A_PIECE:
                    yield keys, values
                    keys, values, size = [], [], 0
                cursor.next()
            cursor.status()
            if keys:
                yield keys, values

    def scan_back(self, begin: bytes, last: bytes) -> Iterator[tuple[bytes, bytes]]:
        """All rows from `last` (included) back to `begin`."""
        with mapped(self.path):
            # Not with an option: in rocksdict 0.3.29 `set_iterate_lower_bound` sets the upper bound.
            cursor = self._cursor(last + b"\0")
            cursor.seek_for_prev(last)
            while cursor.valid() and (key := cursor.key()) >= begin:
                yield key, cursor.value()
                cursor.prev()
            cursor.status()

    def _cursor(self, end: bytes) -> RdictIter:
        options = ReadOptions()
        options.set_iterate_upper_bound(end)
        return self._rdict.iter(options)

    def close(self) -> None:
        """May be called again."""
        with self._idle:
            if not self._is_open:
                return
            self._is_open = False
            if not self._compactions:
                with mapped(self.path):
                    self._rdict.close()
                return
            # The driver cannot be closed while one of its calls runs.
            self._rdict.cancel_all_background(wait=False)
            self._idle.wait_for(lambda: not self._compactions)
            # This closes it, and raises because there was no last flush. All data that counts was flushed when written.
            with suppress(Fatal), mapped(self.path):
                self._rdict.close()


class SortedFile:
    """An SST file with rows in ascending order of their keys, written beside the database and then ingested."""

    def __init__(self, path: Path, sizes: Sizes) -> None:
        self.path = path
        with mapped(path):
            self._writer = SstFileWriter(_options(sizes))
            self._writer.open(str(path))

    def append(self, keys: Sequence[bytes], values: Sequence[bytes]) -> None:
        writer = self._writer
        with mapped(self.path):
            for key, value in zip(keys, values, strict=True):
                writer[key] = value

    def finish(self) -> None:
        with mapped(self.path):
            self._writer.finish()
        # RocksDB tells the system to forget what it wrote here, at 100 us for each first look at a block (measured).
        # Reading the file in order brings it back: 40 ms for a million rows.
        with self.path.open("rb", buffering=0) as file:
            while file.read(_MIB):
                pass


def _without_log() -> WriteOptions:
    options = WriteOptions()
    options.disable_wal = True  # type: ignore[method-assign, assignment] # the stub calls it a method; it is a property
    return options
