"""Rows from a CSV, JSON or Parquet file of this host."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa

from enrich.agent.loaders.keyed_rows import KeyedRows
from enrich.agent.loaders.source import SourceBatch
from stores.external.file_formats import FileFormat
from stores.external.files import FileReader


class FileSource:
    """See `RowSource`."""

    def __init__(self, path: str, file_format: FileFormat, columns: pa.Schema, rows: KeyedRows, work: Path) -> None:
        """Columns that are needed and that `columns` does not name are text. `work`: where the file is copied to."""
        self._path = path
        self._format = file_format
        named = {field.name: field for field in columns}
        # NOT NULL is for the decoder, which knows which row is at fault.
        fields = [pa.field(name, named[name].type if name in named else pa.string()) for name in rows.names]
        self._schema = pa.schema(fields)
        self._rows = rows
        self._work = work

    def batches(self, stopping: Callable[[], bool]) -> Iterator[SourceBatch]:
        reader = FileReader(self._path, self._format, self._schema, stopping=stopping)
        with reader.copied(self._work) as reading:
            for batch in reading.batches():
                yield self._rows.of(batch)
