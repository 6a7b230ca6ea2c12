"""Local CSV, JSON and Parquet files as Arrow batches. Messages never quote a file's content."""

import base64
import binascii
import re
from abc import abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from enum import StrEnum
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as arrow_csv
import pyarrow.json as arrow_json
import pyarrow.parquet as parquet

from stores.errors import ConfigError, Retryable
from stores.external.files.decimals import decimals_of, has_tiny_decimal
from stores.external.files.quotes import open_quote

_BLOCK = 4 << 20
_ROWS = 65_536
_ROW = re.compile(r"(?:Row #|in row )(\d+)")


class FileFormat(StrEnum):
    csv = "csv"
    json = "json"
    parquet = "parquet"


class Reading(AbstractContextManager["Reading"]):
    """An open file. `batches` may be called again and returns the same rows."""

    def __init__(self, path: Path, where: str, columns: pa.Schema | None) -> None:
        self._path = path
        self._where = where
        with self._errors():
            self.schema: pa.Schema = self._open(columns)

    @abstractmethod
    def _open(self, wanted: pa.Schema | None) -> pa.Schema:
        """Raises ConfigError for wanted columns that the file does not have."""

    @abstractmethod
    def _batches(self) -> Iterator[pa.RecordBatch]: ...

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Raises Retryable if the file is not valid in its format."""
        with self._errors():
            yield from self._batches()

    def __exit__(self, *_: object) -> None:
        return None

    def _refused(self, what: str, next_step: str | None = None) -> Retryable:
        return Retryable(f"not a whole file: {what}", where=self._where, next_step=next_step or "put it there again")

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except (pa.ArrowException, OSError) as error:
            row = _ROW.search(str(error))
            place = f" in row {row[1]}" if row else ""
            raise self._refused(f"{_told(error)}{place}") from None


def _told(error: Exception) -> str:
    """The meaning of Arrow's message without its quotes of the file."""
    text = str(error)
    for sign, told in (
        ("Expected", "a row has more or fewer values than there are columns"),
        ("conversion error", "a value does not fit its column's type"),
        ("CSV parse error", "it cannot be read as CSV"),
        ("JSON parse error", "it cannot be read as JSON, one object a line"),
        ("Parquet", "it cannot be read as Parquet"),
        ("UTF8", "a text is not UTF-8"),
    ):
        if sign in text:
            return told
    return "it cannot be read"


class CsvReading(Reading):
    """A header, commas, double quotes. An empty value is null; an empty one in quotes is an empty text."""

    def _open(self, wanted: pa.Schema | None) -> pa.Schema:
        with self._path.open("rb") as file:
            header = file.readline()
            if not header.strip():
                raise self._refused("it is empty, not even a header is there")
            file.seek(-1, 2)
            if file.read(1) not in (b"\n", b"\r"):
                raise self._refused("its last line does not end", "if nothing is missing, end the file with a newline")
        # Parses only the header, for the column names as Arrow reads them.
        names = arrow_csv.read_csv(pa.BufferReader(header.rstrip(b"\r\n") + b"\n")).column_names
        if len(set(names)) < len(names):
            raise self._refused("two columns of its header have the same name")
        self._wanted = wanted or pa.schema([(name, pa.string()) for name in names])
        _require(self._wanted.names, names, self._where)
        # Before any row is given out: of what an open quote swallows, each row would look deleted.
        line = open_quote(self._path)
        if line is not None:
            raise self._refused(
                f"a quote is not closed, of the value that begins in line {line}", "close it, or double it"
            )
        return self._wanted

    def _batches(self) -> Iterator[pa.RecordBatch]:
        convert = arrow_csv.ConvertOptions(
            include_columns=self._wanted.names,
            column_types={field.name: as_read(field, self._where, "csv") for field in self._wanted},
            null_values=[""],
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
        )
        reader = arrow_csv.open_csv(
            self._path,
            arrow_csv.ReadOptions(block_size=_BLOCK, use_threads=False),
            arrow_csv.ParseOptions(newlines_in_values=True),
            convert,
        )
        for batch in reader:
            yield as_wanted(batch, self._wanted)


class JsonReading(Reading):
    """One object per line. Fields without a column are ignored; missing ones are null."""

    def _open(self, wanted: pa.Schema | None) -> pa.Schema:
        if wanted is None:
            raise ConfigError("a JSON file needs columns", where=self._where, next_step='columns: "id bigint, ..."')
        with self._path.open("rb") as file:
            if file.read(1) == b"[":
                raise self._refused("it is one array", "write one object a line (jq -c '.[]' does)")
        self._wanted = wanted
        return wanted

    def _batches(self) -> Iterator[pa.RecordBatch]:
        if self._path.stat().st_size == 0:
            return
        if has_tiny_decimal(self._path, self._wanted):
            raise self._refused("a decimal column has a number with an exponent below -9", "write its digits instead")
        schema = pa.schema([(field.name, as_read(field, self._where, "json")) for field in self._wanted])
        reader = arrow_json.open_json(
            self._path,
            arrow_json.ReadOptions(block_size=_BLOCK, use_threads=False),
            arrow_json.ParseOptions(explicit_schema=schema, unexpected_field_behavior="ignore"),
        )
        for batch in reader:
            yield as_wanted(batch, self._wanted)


class ParquetReading(Reading):
    """The file's own types, or those of the wanted columns if these can hold its values."""

    def _open(self, wanted: pa.Schema | None) -> pa.Schema:
        self._file = parquet.ParquetFile(self._path)
        own: pa.Schema = self._file.schema_arrow.remove_metadata()
        if wanted is not None:
            _require(wanted.names, own.names, self._where)
        self._wanted = wanted or pa.schema([pa.field(f.name, _plain(f.type), f.nullable) for f in own])
        for field in self._wanted:
            as_read(field, self._where, "parquet")
        return self._wanted

    def _batches(self) -> Iterator[pa.RecordBatch]:
        for batch in self._file.iter_batches(_ROWS, columns=self._wanted.names):
            yield as_wanted(batch, self._wanted)

    def __exit__(self, *_: object) -> None:
        self._file.close()


FORMATS: Mapping[FileFormat, type[Reading]] = {
    FileFormat.csv: CsvReading,
    FileFormat.json: JsonReading,
    FileFormat.parquet: ParquetReading,
}


def _plain(kind: pa.DataType) -> pa.DataType:
    return kind.value_type if pa.types.is_dictionary(kind) else kind


def _require(wanted: list[str], there: list[str], where: str) -> None:
    missing = [name for name in wanted if name not in there]
    if missing:
        raise Retryable(
            f"the file has no column {', '.join(missing)}", where=where, next_step=f"its columns: {', '.join(there)}"
        )


def as_read(field: pa.Field, where: str, file_format: str) -> pa.DataType:
    """The type to parse a field as, before `as_wanted`. Raises ConfigError for one that the format cannot hold."""
    kind = field.type
    if file_format == "parquet":
        if not pa.types.is_map(kind):
            return kind
    elif file_format == "json" and (pa.types.is_list(kind) or pa.types.is_struct(kind)):
        if not any(_needs_text(inner) or pa.types.is_map(inner) for inner in _leaves(kind)):
            return kind
    elif _needs_text(kind) or (file_format == "csv" and pa.types.is_decimal(kind)):
        return pa.string()
    elif not pa.types.is_nested(kind):
        return kind
    raise ConfigError(
        f"column {field.name} of type {kind} cannot be read from a {file_format} file",
        where=where,
        next_step="leave it out of columns, or read it as a string",
    )


def as_wanted(batch: pa.RecordBatch, wanted: pa.Schema) -> pa.RecordBatch:
    """The batch with the wanted columns, in their order. Raises ArrowInvalid for a value that does not fit."""
    arrays = []
    for field in wanted:
        array = batch.column(batch.schema.get_field_index(field.name))
        if array.type != field.type:
            array = _converted(array, field.type)
        arrays.append(array)
    return pa.RecordBatch.from_arrays(arrays, schema=wanted)


def _needs_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_binary(kind) or pa.types.is_timestamp(kind) or pa.types.is_date(kind))


def _leaves(kind: pa.DataType) -> list[pa.DataType]:
    if pa.types.is_nested(kind) and not pa.types.is_map(kind):
        return [leaf for i in range(kind.num_fields) for leaf in _leaves(kind.field(i).type)]
    return [kind]


def _converted(array: pa.Array, kind: pa.DataType) -> pa.Array:
    if pa.types.is_string(array.type) and pa.types.is_binary(kind):
        try:
            decoded = [None if text is None else base64.b64decode(text, validate=True) for text in array.to_pylist()]
        except binascii.Error:
            raise pa.ArrowInvalid("conversion error: a value is not base64") from None
        return pa.array(decoded, kind)
    if pa.types.is_string(array.type) and pa.types.is_timestamp(kind) and kind.tz is not None:
        # A time without an offset is UTC, as in the tables' JSON; Arrow needs offsets in all texts or in none.
        zoned = pc.match_substring_regex(array, r"[T ].*(Z|[+-]\d\d(:?\d\d)?)$")
        with_zone = pc.if_else(zoned, array, None).cast(kind)
        without = pc.if_else(zoned, None, array).cast(pa.timestamp(kind.unit)).cast(kind)
        return pc.coalesce(with_zone, without)
    if pa.types.is_string(array.type) and pa.types.is_decimal(kind):
        return decimals_of(array, kind)
    return array.cast(kind)
