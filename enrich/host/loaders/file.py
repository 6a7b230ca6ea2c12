"""Rows from a CSV, JSON or Parquet file of this host."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa

from enrich.base.errors import ConfigError
from enrich.codecs.json.texts import as_json, as_key_part, is_text_in_json
from enrich.host.loaders.keyed_rows import KeyedRows
from enrich.host.loaders.source import SourceBatch
from stores.external.files.formats import FileFormat
from stores.external.files.reading import FileReader, Seen
from stores.json_text import JSON_TEXT


class FileSource:
    """JSON and Parquet: values have types; if one does not fit its column, the whole file is refused."""

    def __init__(self, path: str, file_format: FileFormat, columns: pa.Schema, rows: KeyedRows, work: Path) -> None:
        """Key columns that `columns` does not name are text. `work`: where the file is copied to."""
        self._path = path
        self._format = file_format
        named = {field.name: field for field in columns}
        # NOT NULL is left to the decoder, which knows which row is at fault.
        fields = [pa.field(name, named[name].type if name in named else pa.string()) for name in rows.names]
        self._schema = pa.schema(fields)
        self._rows = rows
        self._work = work
        self._seen = Seen()

    def batches(self, stopping: Callable[[], bool]) -> Iterator[SourceBatch]:
        reader = FileReader(self._path, self._format, self._schema, stopping=stopping, seen=self._seen)
        with reader.copied(self._work) as reading:
            for batch in reading.batches():
                yield self._rows.of(batch)


class CsvSource:
    """CSV: all values are text; one that does not fit its column makes only its own row bad."""

    def __init__(self, path: str, columns: pa.Schema, rows: KeyedRows, work: Path) -> None:
        self._path = path
        self._types = {field.name: field.type for field in columns}
        self._rows = rows
        self._work = work
        self._seen = Seen()

    def batches(self, stopping: Callable[[], bool]) -> Iterator[SourceBatch]:
        reader = FileReader(self._path, FileFormat.csv, stopping=stopping, seen=self._seen)
        with reader.copied(self._work) as reading:
            self._require_columns(reading.schema.names)
            for batch in reading.batches():
                yield self._rows.of(self._typed(batch), self._keys(batch))

    def _typed(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        columns, fields = [], []
        for name, kind in self._types.items():
            texts = batch.column(name)
            columns.append(texts if is_text_in_json(kind) else as_json(texts, kind))
            fields.append(pa.field(name, pa.string(), metadata=None if is_text_in_json(kind) else JSON_TEXT))
        return pa.RecordBatch.from_arrays(columns, schema=pa.schema(fields))

    def _keys(self, batch: pa.RecordBatch) -> list[pa.Array]:
        return [as_key_part(batch.column(name), self._types.get(name, pa.string())) for name in self._rows.key]

    def _require_columns(self, there: list[str]) -> None:
        missing = [name for name in self._rows.names if name not in there]
        if missing:
            raise ConfigError(
                f"the file has no column {', '.join(missing)}",
                where=f"file {self._path}",
                next_step=f"its columns: {', '.join(there)}",
            )
