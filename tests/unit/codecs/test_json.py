import base64
import datetime as dt
import decimal
import json

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from enrich.base.errors import ConfigError
from enrich.codecs import JsonDecoder


def decode(kind, *values):
    decoder = JsonDecoder(pa.schema([pa.field("c", kind)]))
    return decoder.decode(pa.array(values, pa.binary()))


def test_a_tombstone_is_a_null_row_and_not_bad():
    decoded = decode(pa.string(), None, b'{"c":"x"}')
    assert decoded.rows.to_pylist() == [None, {"c": "x"}]
    assert decoded.bad == {}


def test_a_missing_field_is_null_and_an_extra_one_is_ignored():
    decoded = decode(pa.string(), b'{"other": [1]}', b'{"c": null}')
    assert decoded.rows.to_pylist() == [{"c": None}] * 2
    assert decoded.bad == {}


@pytest.mark.parametrize(
    ("kind", "value", "expected"),
    [
        (pa.string(), "ключ 🔑", "ключ 🔑"),
        (pa.int8(), -128, -128),
        (pa.int64(), 2**63 - 1, 2**63 - 1),
        (pa.float64(), 3, 3.0),
        (pa.bool_(), False, False),
        (pa.decimal128(10, 2), "12.30", decimal.Decimal("12.30")),
        (pa.decimal128(10, 2), 12.3, decimal.Decimal("12.30")),
        (pa.binary(), base64.b64encode(b"\x00\xff").decode(), b"\x00\xff"),
        (pa.date32(), "2026-02-28", dt.date(2026, 2, 28)),
        (
            pa.timestamp("us", tz="UTC"),
            "2026-02-28T10:00:00.000001+02:00",
            dt.datetime(2026, 2, 28, 8, 0, 0, 1, dt.UTC),
        ),
        (pa.list_(pa.int32()), [1, None], [1, None]),
        (pa.map_(pa.string(), pa.int32()), {"a": 1, "b": None}, [("a", 1), ("b", None)]),
        (pa.struct([("x", pa.int32())]), {"y": 0}, {"x": None}),
    ],
)
def test_values_of_the_right_type_are_read(kind, value, expected):
    decoded = decode(kind, json.dumps({"c": value}).encode())
    assert decoded.bad == {}
    assert decoded.rows.to_pylist() == [{"c": expected}]


@pytest.mark.parametrize(
    ("kind", "value", "reason"),
    [
        (pa.string(), 5, "c: expected text, got a whole number"),
        (pa.string(), "\ud800", "c: text with half a surrogate pair"),
        (pa.int8(), 128, "c: a whole number of 8 bits cannot hold the value"),
        (pa.int32(), True, "c: expected a whole number, got true or false"),
        (pa.int32(), 1.0, "c: expected a whole number, got a number"),
        (pa.float64(), "1", "c: expected a number, got text"),
        (pa.float64(), float("inf"), "c: a number too large for its column"),
        (pa.float64(), 10**400, "c: a number too large for its column"),
        (pa.bool_(), 0, "c: expected true or false, got a whole number"),
        (pa.decimal128(4, 2), "100", "c: decimal(4,2) cannot hold the value"),
        (pa.decimal128(4, 2), "1.234", "c: decimal(4,2) cannot hold the value"),
        (pa.decimal128(4, 2), "NaN", "c: decimal(4,2) cannot hold the value"),
        (pa.decimal128(4, 2), "x", "c: expected a decimal number, got text"),
        (pa.binary(), "%", "c: expected base64 text"),
        (pa.date32(), "28.2.2026", "c: expected an ISO 8601 date, got other text"),
        (pa.timestamp("us"), 5, "c: expected text, got a whole number"),
        (pa.list_(pa.int32()), [1, "x"], "c.1: expected a whole number, got text"),
        (pa.map_(pa.string(), pa.int32()), {"k": "x"}, "c.{0}: expected a whole number, got text"),
        (
            pa.struct([("x", pa.struct([("y", pa.int32())]))]),
            {"x": {"y": []}},
            "c.x.y: expected a whole number, got an array",
        ),
    ],
)
def test_a_wrong_type_is_bad_and_the_reason_names_the_field_but_not_the_value(kind, value, reason):
    decoded = decode(kind, json.dumps({"c": value}).encode(), b"{}")
    assert decoded.bad == {0: reason}
    assert decoded.rows.to_pylist() == [None, {"c": None}]


@pytest.mark.parametrize(
    "value", [b"", b"{", b'{"c":1}x', b"[]", b"null", b'"x"', b"\xff\xfe", b"[" * 100_000, b'{"c":1}{"c":2}']
)
def test_what_is_no_json_object_is_bad(value):
    assert list(decode(pa.int32(), value).bad) == [0]


def test_a_map_with_keys_that_json_cannot_have_is_refused():
    with pytest.raises(ConfigError, match="text keys"):
        decode(pa.map_(pa.int32(), pa.int32()))


@given(
    st.binary(max_size=60)
    | st.recursive(st.none() | st.booleans() | st.floats() | st.text(), st.lists).map(
        lambda v: json.dumps({"c": v}).encode()
    )
)
def test_any_bytes_become_a_row_or_a_reason(value):
    for kind in (
        pa.int32(),
        pa.string(),
        pa.decimal128(5, 1),
        pa.timestamp("us", tz="UTC"),
        pa.date32(),
        pa.binary(),
        pa.list_(pa.float32()),
    ):
        decoded = decode(kind, value)
        assert len(decoded.rows) == 1
        assert (decoded.rows[0].as_py() is None) == (0 in decoded.bad)
