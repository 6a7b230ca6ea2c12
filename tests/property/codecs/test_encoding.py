"""What encoders write, decoders of the same format read as the rows that were given."""

import io
import json
import math
import struct
import time
from decimal import Decimal
from typing import Any

import fastavro
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from enrich.base.errors import ConfigError
from enrich.codecs import BareAvro, FramedAvro, JsonDecoder
from enrich.codecs.avro.encoding.rows import AvroEncoder
from enrich.codecs.json.encoding import JsonEncoder
from stores.json_text import JSON_TEXT
from tests.property.codecs.avro_values import Typed, records, types

_names = st.sampled_from(["a", "b", "ä", 'with "quotes"', "new\nline", "\\", "c d", ""])


def finite(value):
    """As JSON has it: no infinity, and one zero."""
    if isinstance(value, float):
        return value + 0.0 if math.isfinite(value) else None
    if isinstance(value, dict):
        return {name: finite(inner) for name, inner in value.items()}
    return [finite(inner) for inner in value] if isinstance(value, list) else value


def has_map(kind):
    return pa.types.is_map(kind) or any(has_map(kind.field(i).type) for i in range(kind.num_fields))


@st.composite
def batches(draw):
    columns = draw(st.lists(types.filter(lambda typed: not has_map(typed.kind)), min_size=1, max_size=4))
    names = draw(st.lists(_names, min_size=len(columns), max_size=len(columns), unique=True))
    rows = draw(st.integers(1, 5))
    arrays = [
        pa.array(draw(st.lists(st.none() | column.values, min_size=rows, max_size=rows)), column.kind)
        for column in columns
    ]
    start = draw(st.integers(0, rows - 1))
    return pa.RecordBatch.from_arrays(arrays, names=names).slice(start)


@given(batches())
def test_json_is_read_as_the_rows_that_were_written(batch):
    encoder = JsonEncoder()
    encoder.check(batch.schema)
    encoded = encoder.encode(batch)
    decoded = JsonDecoder(batch.schema).decode(encoded.values)
    assert (encoded.bad, decoded.bad) == ({}, {})
    assert decoded.rows.to_pylist() == [finite(row) for row in batch.to_pylist()]
    one_by_one = [encoder.encode(batch.slice(i, 1)).values[0].as_py() for i in range(batch.num_rows)]
    assert encoded.values.to_pylist() == one_by_one


@given(st.data())
def test_avro_is_read_as_the_rows_that_were_written(data):
    # fastavro does not rescale numbers inside of lists, maps and records.
    typed: Typed = data.draw(records.filter(lambda typed: "decimal128(20, 5)" not in str(typed.kind)))
    values = data.draw(st.lists(typed.values, min_size=1, max_size=5))
    rows = pa.RecordBatch.from_struct_array(pa.array(values, typed.kind))
    schema = json.dumps(typed.schema)
    bare, framed = AvroEncoder(schema), AvroEncoder(schema, 7)
    encoded = bare.encode(rows)
    assert encoded.bad == {}
    decoded = BareAvro(rows.schema, schema).decode(encoded.values)
    assert decoded.rows.to_pylist() == rows.to_pylist()

    class Schemas:
        def get(self, schema_id: int) -> str:
            assert schema_id == 7
            return schema

    assert FramedAvro(rows.schema, Schemas()).decode(framed.encode(rows).values).rows.to_pylist() == rows.to_pylist()


def test_a_row_that_does_not_fit_the_avro_schema_is_bad_alone():
    schema = {"type": "record", "name": "r", "fields": [{"name": "a", "type": "int"}]}
    encoded = AvroEncoder(json.dumps(schema)).encode(pa.record_batch({"a": pa.array([1, None, 2**40, 4])}))
    assert encoded.bad == dict.fromkeys([1, 2], "a value does not fit the avro schema")
    assert encoded.values.to_pylist() == [b"\x02", None, None, b"\x08"]


def test_a_whole_number_is_written_as_the_default_of_a_double_whose_type_is_an_object():
    price = {"name": "price", "type": {"type": "double", "unit": "EUR"}, "default": 5}
    schema = {"type": "record", "name": "r", "fields": [{"name": "a", "type": "int"}, price]}
    encoded = AvroEncoder(json.dumps(schema)).encode(pa.record_batch({"a": pa.array([1])}))
    assert encoded.values.to_pylist() == [b"\x02" + struct.pack("<d", 5.0)]


_array = {"type": "array", "items": "string"}
_inner = {"type": "record", "name": "i", "fields": [{"name": "x", "type": "int"}]}


@pytest.mark.parametrize(
    ("type_", "values", "bad"),
    [
        ("long", pa.array([Decimal("1.50"), Decimal("2.00"), None]), [0, 2]),
        ("int", pa.array([1.0, 2.5, math.nan, math.inf, 1e10]), [1, 2, 3, 4]),
        ({"type": "int"}, pa.array([2**31 - 1, 2**31, -(2**31)]), [1]),
        ("long", pa.array([2**63 - 1, 2**63], pa.uint64()), [1]),
        ("int", pa.array([1, 2**63], pa.uint64()), [1]),
        ("boolean", pa.array(["false", "f", ""]), [0, 1, 2]),
        ("boolean", pa.array([0, 1, 2]), [2]),
        ("float", pa.array([1e300, 3e38, math.inf, -1e39]), [0, 3]),
        (["null", "float"], pa.array([1e300, None, 1.0]), [0]),
        (_array, pa.array(['["a","b"]', None]), [0, 1]),
        (_array, pa.array([{"x": 1}]), [0]),
        ({"type": "array", "items": "int"}, pa.array([[1], [1, 2**40], []]), [1]),
        ({"type": "array", "items": _inner}, pa.array([[{"x": 1}], [{"x": 2**31}]]), [1]),
        (
            {"type": "map", "values": "long"},
            pa.array([[("k", 1.5)], [("k", 2.0)]], pa.map_(pa.string(), pa.float64())),
            [0],
        ),
    ],
)
def test_a_value_of_another_type_is_not_written_as_another_value(type_, values, bad):
    schema = {"type": "record", "name": "r", "fields": [{"name": "a", "type": type_}]}
    encoded = AvroEncoder(json.dumps(schema)).encode(pa.record_batch({"a": values}))
    assert sorted(encoded.bad) == bad
    for index, value in enumerate(encoded.values.to_pylist()):
        assert (value is None) is (index in bad)
        if value is not None:
            wanted = (
                values[index].as_py(maps_as_pydicts="lossy") if pa.types.is_map(values.type) else values[index].as_py()
            )
            read: Any = fastavro.schemaless_reader(io.BytesIO(value), schema)
            assert read["a"] == (pytest.approx(wanted, rel=1e-7) if isinstance(wanted, float) else wanted)


def test_times_of_any_unit_and_without_a_zone_are_utc_and_those_that_no_format_has_are_null(monkeypatch):
    monkeypatch.setenv("TZ", "America/New_York")
    time.tzset()
    try:
        micros = {"type": "long", "logicalType": "timestamp-micros"}
        fields = [
            {"name": "nanos", "type": micros},
            {"name": "far", "type": ["null", micros]},
            {"name": "list", "type": {"type": "array", "items": micros}},
        ]
        schema = json.dumps({"type": "record", "name": "r", "fields": fields})
        naive = pa.timestamp("us")
        rows = pa.record_batch(
            {
                "nanos": pa.array([-1, 1999], pa.timestamp("ns", "UTC")),
                "far": pa.array([2**60, 0], naive),
                "list": pa.array([[0], [5]], pa.list_(naive)),
            }
        )
        encoded = AvroEncoder(schema).encode(rows)
    finally:
        monkeypatch.undo()
        time.tzset()
    assert encoded.bad == {}
    utc = pa.timestamp("us", "UTC")
    columns = pa.schema([("nanos", utc), ("far", utc), ("list", pa.list_(utc))])
    read = BareAvro(columns, schema).decode(encoded.values).rows
    assert read.field("nanos").cast(pa.int64()).to_pylist() == [-1, 1]
    assert read.field("far").cast(pa.int64()).to_pylist() == [None, 0]
    assert read.field("list").cast(pa.list_(pa.int64())).to_pylist() == [[0], [5]]


def test_decimals_are_rescaled_to_the_schemas_digits_and_never_rounded():
    number = {"type": "bytes", "logicalType": "decimal", "precision": 12, "scale": 2}
    schema = json.dumps({"type": "record", "name": "r", "fields": [{"name": "a", "type": ["null", number]}]})
    column = pa.array(["1.50000", "1.50001", None]).cast(pa.decimal128(20, 5))
    encoded = AvroEncoder(schema).encode(pa.record_batch({"a": column}))
    assert list(encoded.bad) == [1]
    decoded = BareAvro(pa.schema([("a", pa.decimal128(12, 2))]), schema).decode(encoded.values)
    assert [row and row["a"] for row in decoded.rows.to_pylist()] == [Decimal("1.50"), None, None]


@pytest.mark.parametrize(("scale", "zeros"), [({"scale": 2}, 2), ({}, 0)])
def test_zeros_behind_the_point_are_no_digits_that_a_schema_has_no_place_for(scale, zeros):
    number = {"type": "bytes", "logicalType": "decimal", "precision": 12, **scale}
    schema = json.dumps({"type": "record", "name": "r", "fields": [{"name": "a", "type": ["null", number]}]})
    texts = ["7.00000", "7", "-0.00000", "7E+1", "7.001", "no number", "9" * 1000, "NaN", None]
    encoded = AvroEncoder(schema).encode(
        pa.RecordBatch.from_arrays(
            [pa.array(texts)], schema=pa.schema([pa.field("a", pa.string(), metadata=JSON_TEXT)])
        )
    )
    assert sorted(encoded.bad) == [4, 5, 6, 7]
    decoded = BareAvro(pa.schema([("a", pa.decimal128(12, zeros))]), schema).decode(encoded.values)
    assert [row and row["a"] for row in decoded.rows.to_pylist()] == [7, 7, 0, 70, *[None] * 5]
    column = pa.array(["7.00000", "7.50000"]).cast(pa.decimal128(20, 5))
    assert list(AvroEncoder(schema).encode(pa.record_batch({"a": column})).bad) == ([] if zeros else [1])


def test_the_bytes_are_the_same_in_every_release():
    """A change here makes every source produce every row again: give the encoder another identity, and say so."""
    batch = pa.record_batch(
        {
            "id": pa.array([1, None]),
            "f": pa.array([0.1, 1e300]),
            "text": ['ä"\n\x01', ""],
            "price": pa.array(["1.10", None]).cast(pa.decimal128(10, 2)),
            "at": pa.array([1_769_853_600_000_001, 0], pa.timestamp("us", "UTC")),
            "local": pa.array([1_769_853_600_000_000, None], pa.timestamp("us")),
            "day": pa.array([20_000, None], pa.date32()),
            "raw": [b"\x00\xff", b""],
            "list": pa.array([[1, None], None], pa.list_(pa.int8())),
        }
    )
    assert JsonEncoder().encode(batch).values.to_pylist() == [
        '{"id":1,"f":0.1,"text":"ä\\"\\n\\u0001","price":1.10,"at":"2026-01-31T10:00:00.000001+00:00",'
        '"local":"2026-01-31T10:00:00.000000","day":"2024-10-04","raw":"AP8=","list":[1,null]}'.encode(),
        b'{"id":null,"f":1e+300,"text":"","price":null,"at":"1970-01-01T00:00:00+00:00",'
        b'"local":null,"day":null,"raw":"","list":null}',
    ]


def test_columns_that_json_has_no_form_for_are_refused():
    for kind in (pa.map_(pa.string(), pa.int8()), pa.duration("s"), pa.list_(pa.month_day_nano_interval())):
        with pytest.raises(ConfigError, match="has no form in JSON"):
            JsonEncoder().check(pa.schema([("a", kind)]))
