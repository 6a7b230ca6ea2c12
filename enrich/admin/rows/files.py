"""Reads a file of rows as keys and encoded values, batch by batch."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from enrich.admin.rows.target import Target
from enrich.base.errors import ConfigError, Retryable
from enrich.config import FileType
from stores.external.files.formats import FORMATS, FileFormat, Reading
from stores.keys import keys_of

_ENDINGS = {"csv": FileType.csv, "json": FileType.json, "jsonl": FileType.json, "ndjson": FileType.json}
_ROWS = 20_000
NO_KEY = "a part of the key is null"


@dataclass(frozen=True)
class KeyedRows:
    """Rows that can be written, and the number of those that cannot, by reason."""

    keys: pa.BinaryArray
    values: pa.BinaryArray
    rejected: dict[str, int]
    rejected_keys: pa.BinaryArray


class RowsFile:
    """A file of rows. Opening it checks its columns against the table's, before any record is written."""

    def __init__(self, path: Path, kind: FileType | None, key: tuple[str, ...], target: Target) -> None:
        """Raises ConfigError if the file does not exist, lacks a column, or has one of another type."""
        self._target = target
        self._key = key
        self._where = f"file {path}"
        kind = _kind_of(path, kind)
        self._names_columns = kind != FileType.json
        self._reading = self._opened(path, kind, _wanted(target, key))
        self._values = [name for name in target.section.columns.names if name in self._reading.schema.names]
        target.encoder.check(pa.schema([self._reading.schema.field(name) for name in self._values]))

    def batches(self) -> Iterator[KeyedRows]:
        """Raises ConfigError, with the row, if the file does not conform to its format or the columns."""
        try:
            for whole in self._reading.batches():
                for start in range(0, whole.num_rows, _ROWS):
                    yield self._keyed(whole.slice(start, _ROWS))
        except Retryable as error:
            raise ConfigError(error.what, where=error.where, next_step=error.next_step) from error

    def close(self) -> None:
        self._reading.__exit__(None, None, None)

    def _keyed(self, batch: pa.RecordBatch) -> KeyedRows:
        keys = keys_of(batch, self._key)
        columns = batch.select(self._values)
        encoded = self._target.encoder.encode(columns)
        rejected: dict[str, int] = {}
        for reason in encoded.bad.values():
            rejected[reason] = rejected.get(reason, 0) + 1
        values, good = encoded.values, pc.and_(keys.is_valid(), encoded.values.is_valid())
        if keys.null_count:
            rejected[NO_KEY] = keys.null_count
        if not self._names_columns and (empty := _without_value(columns)).true_count:
            rejected[f"it has none of the columns {', '.join(self._values)}"] = empty.true_count
            good = pc.and_(good, pc.invert(empty))
        sizes = pc.add(pc.binary_length(keys), pc.binary_length(values)).fill_null(0)
        too_large = pc.greater(sizes, self._target.largest)
        if pc.any(too_large).as_py():
            rejected[f"larger than the {self._target.largest} bytes that the topic takes"] = pc.sum(too_large).as_py()
            good = pc.and_(good, pc.invert(too_large))
        left_out = keys.filter(pc.and_(keys.is_valid(), pc.invert(good)))
        if rejected:
            keys, values = keys.filter(good), values.filter(good)
        return KeyedRows(keys, values, rejected, left_out)

    def _opened(self, path: Path, kind: FileType, columns: pa.Schema) -> Reading:
        try:
            is_there = path.is_file()
        except OSError as error:  # its folder cannot be searched, or the name is too long
            raise ConfigError(f"it cannot be read: {error.strerror}", where=self._where) from error
        if not is_there:
            raise ConfigError("there is no such file", where=self._where)
        try:
            return FORMATS[FileFormat(kind)](path, self._where, columns)
        except Retryable as error:
            raise ConfigError(error.what, where=error.where, next_step=error.next_step) from error


def _without_value(batch: pa.RecordBatch) -> pa.BooleanArray:
    """Which rows are null in all columns."""
    empty = pa.array(np.ones(len(batch), np.bool_))
    for column in batch.columns:
        empty = pc.and_(empty, column.is_null())
    return empty


def _kind_of(path: Path, kind: FileType | None) -> FileType:
    found = kind or (_ENDINGS | {"parquet": FileType.parquet}).get(path.suffix.lower().lstrip("."))
    if found is None:
        raise ConfigError("the file's name does not say its type", where=f"file {path}", next_step="give --type")
    return found


def _wanted(target: Target, key: tuple[str, ...]) -> pa.Schema:
    columns: pa.Schema = target.section.columns.arrow
    keys = [pa.field(name, pa.string()) for name in key if name not in columns.names]
    return pa.schema([*keys, *columns])
