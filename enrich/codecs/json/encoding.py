"""Encodes rows as JSON objects: compact, columns in order, null fields as null.

polars encodes runs of plain columns (3 M rows/s of 100 bytes). Text that is JSON already, and decimals, are inserted
verbatim, so that no digit is lost.
"""

import base64

import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from enrich.base.errors import ConfigError
from enrich.codecs.encoding import Encoded
from stores.json_text import is_json_text


class JsonEncoder:
    identity = "json/1"
    columns = None

    def check(self, schema: pa.Schema) -> None:
        for field in schema:
            _require(field.type, field.name)

    def encode(self, rows: pa.RecordBatch) -> Encoded:
        pieces: list[pa.Array] = []
        run: list[tuple[str, pa.Array]] = []
        for field, column in zip(rows.schema, rows.columns, strict=True):
            if is_json_text(field) or pa.types.is_decimal(field.type):
                pieces += _plain_fields(run)
                run = []
                pieces.append(_verbatim(field.name, column))
            else:
                run.append((field.name, _plain(column)))
        pieces += _plain_fields(run)
        inner = pc.binary_join_element_wise(*pieces, ",")
        return Encoded(pc.binary_join_element_wise("{", inner, "}", "").cast(pa.binary()))


def _plain_fields(run: list[tuple[str, pa.Array]]) -> list[pa.Array]:
    """`"a":1,"b":null` for each row; nothing for an empty run."""
    if not run:
        return []
    series = [pl.Series(str(number), pl.from_arrow(column)) for number, (_, column) in enumerate(run)]
    struct = pl.DataFrame(series).to_struct().rename("")
    struct = struct.struct.rename_fields([name for name, _ in run])
    objects = struct.struct.json_encode().to_arrow().cast(pa.string())
    return [pc.utf8_slice_codeunits(objects, 1, -1)]


def _verbatim(name: str, column: pa.Array) -> pa.Array:
    text = column if pa.types.is_string(column.type) else column.cast(pa.string())
    return pc.binary_join_element_wise(_quoted(name) + ":", text.fill_null("null"), "")


def _quoted(name: str) -> str:
    (quoted,) = pl.Series([{"a": name}]).struct.json_encode()
    return str(quoted)[5:-1]


def _plain(column: pa.Array) -> pa.Array:
    """The column in a type whose JSON form is what the decoders read."""
    kind = column.type
    if pa.types.is_dictionary(kind):
        return _plain(column.cast(kind.value_type))
    if pa.types.is_struct(kind):
        children = [_plain(column.field(i)) for i in range(kind.num_fields)]
        return pa.StructArray.from_arrays(children, [f.name for f in kind], mask=column.is_null())
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        lists = column.cast(pa.list_(kind.value_type))
        mask = lists.is_null() if lists.null_count else None
        return pa.ListArray.from_arrays(_compact_offsets(lists), _plain(lists.flatten()), mask=mask)
    if _is_bytes(kind):
        texts = [None if value is None else base64.b64encode(value).decode() for value in column.to_pylist()]
        return pa.array(texts, pa.string())
    if pa.types.is_decimal(kind):  # inside a list or struct, where nothing can be inserted
        return column.cast(pa.string())
    if pa.types.is_timestamp(kind) and kind.tz is None:
        return pc.replace_substring(column.cast(pa.string()), " ", "T", max_replacements=1)
    if pa.types.is_timestamp(kind):
        return column.cast(pa.timestamp(kind.unit, "UTC"))
    return column


def _compact_offsets(lists: pa.ListArray) -> pa.Array:
    lengths = pc.fill_null(pc.list_value_length(lists), 0)
    sums = pc.cumulative_sum(lengths).cast(pa.int32())
    return pa.concat_arrays([pa.array([0], pa.int32()), sums])


def _is_bytes(kind: pa.DataType) -> bool:
    return bool(pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_fixed_size_binary(kind))


_SIMPLE = (
    pa.types.is_boolean,
    pa.types.is_integer,
    pa.types.is_floating,
    pa.types.is_string,
    pa.types.is_large_string,
    pa.types.is_date,
    pa.types.is_time,
    pa.types.is_timestamp,
    pa.types.is_decimal,
    pa.types.is_null,
    _is_bytes,
)


def _require(kind: pa.DataType, name: str) -> None:
    if pa.types.is_dictionary(kind):
        _require(kind.value_type, name)
    elif pa.types.is_struct(kind) or pa.types.is_list(kind) or pa.types.is_large_list(kind):
        for i in range(kind.num_fields):
            _require(kind.field(i).type, f"{name}.{kind.field(i).name}")
    elif not any(is_simple(kind) for is_simple in _SIMPLE):
        raise ConfigError(
            f"column {name} of type {kind} has no form in JSON", next_step="leave it out of columns, or cast it"
        )
