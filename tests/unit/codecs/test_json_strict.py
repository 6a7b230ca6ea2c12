"""Where JSON is treacherous: what a lenient parser would take, and what a careless one would break."""

import datetime as dt
import json
from decimal import Decimal

import pyarrow as pa
import pytest

from enrich.codecs import JsonDecoder
from enrich.codecs.json.fast import Doubt, FastJson, plausible

UTC = pa.timestamp("us", tz="UTC")


def decode(kind, text, nullable=True):
    """The value and the reason, alike alone and among good values."""
    decoder = JsonDecoder(pa.schema([pa.field("c", kind, nullable=nullable)]))
    value = text if isinstance(text, bytes) else text.encode("utf-8", "surrogatepass")
    answers = []
    for size in (1, 100):
        decoded = decoder.decode(pa.array([value] * size, pa.binary()))
        rows = decoded.rows.to_pylist()
        assert all(row == rows[0] for row in rows)
        answers.append((rows[0] and rows[0]["c"], decoded.bad.get(size - 1)))
    assert repr(answers[0]) == repr(answers[1])  # 0.0 and -0.0 are equal
    return answers[0]


@pytest.mark.parametrize(
    ("kind", "written", "expected"),
    [
        # exact where the nearest float is not
        (pa.decimal128(38, 19), "0.1234567890123456789", Decimal("0.1234567890123456789")),
        (pa.decimal128(20, 3), "1234567890123456.789", Decimal("1234567890123456.789")),
        (pa.decimal128(38, 2), '"-999999999999999999999999999999999999.99"', Decimal("-" + "9" * 36 + ".99")),
        (pa.decimal128(5, 2), "1.500", Decimal("1.50")),
        (pa.decimal128(5, 2), "1e2", Decimal("100.00")),
        (pa.float64(), "123456789012345678901234567890", 123456789012345678901234567890.0),
        (pa.float64(), "1e-400", 0.0),
        (pa.int32(), "-0", 0),
        (pa.string(), '"\\ud83d\\ude00"', "😀"),
        (pa.string(), '"a\\u0000b"', "a\0b"),
        (UTC, '"2026-02-28"', dt.datetime(2026, 2, 28, tzinfo=dt.UTC)),
        (UTC, '"2026-02-28 10:00"', dt.datetime(2026, 2, 28, 10, tzinfo=dt.UTC)),
        (UTC, '"2026-02-28T10:00:00.123456789Z"', dt.datetime(2026, 2, 28, 10, 0, 0, 123456, dt.UTC)),
        (UTC, '"2026-02-28T10:00:00-05:30"', dt.datetime(2026, 2, 28, 15, 30, tzinfo=dt.UTC)),
    ],
)
def test_values_are_read_exactly(kind, written, expected):
    assert decode(kind, f'{{"c": {written}}}') == (expected, None)


@pytest.mark.parametrize(
    ("kind", "written", "reason"),
    [
        (pa.decimal128(5, 2), "1000", "c: decimal(5,2) cannot hold the value"),
        (pa.decimal128(5, 2), '"1_0"', "c: expected a decimal number, got text"),
        (pa.decimal128(5, 2), '" 1"', "c: expected a decimal number, got text"),
        (pa.decimal128(5, 2), "1e99999999999999999999", "c: decimal(5,2) cannot hold the value"),
        (pa.decimal128(38, 10), "1" * 5000, "c: decimal(38,10) cannot hold the value"),
        (pa.int64(), "9223372036854775808", "c: a whole number of 64 bits cannot hold the value"),
        (pa.int64(), "-" + "1" * 5000, "c: a whole number of 64 bits cannot hold the value"),
        (pa.int64(), "1.0", "c: expected a whole number, got a number"),
        (pa.int64(), "1e2", "c: expected a whole number, got a number"),
        (pa.int64(), '"1"', "c: expected a whole number, got text"),
        (pa.float32(), "1e39", "c: a number too large for its column"),
        (pa.float64(), "1e400", "c: a number too large for its column"),
        (pa.float64(), "NaN", "c: a number too large for its column"),
        (pa.float64(), "-Infinity", "c: a number too large for its column"),
        (pa.string(), '"\\udc00"', "c: text with half a surrogate pair"),
        (pa.map_(pa.string(), pa.int32()), '{"\\ud800": 1}', "c.{0}: text with half a surrogate pair"),
        (
            pa.map_(pa.string(), pa.int32()),
            f'{{"{"k" * 99}": "x"}}',
            "c.{0}: expected a whole number, got text",
        ),
        (pa.date32(), '"0000-01-01"', "c: expected an ISO 8601 date, got other text"),
        (UTC, '"0001-01-01T00:00:00+05:00"', "c: a time outside the years 1 to 9999"),
        (UTC, '"2026-02-28T24:00:00Z"', "c: expected an ISO 8601 time, got other text"),
        (UTC, "1700000000", "c: expected text, got a whole number"),
    ],
)
def test_what_is_not_the_type_is_bad(kind, written, reason):
    assert decode(kind, f'{{"c": {written}}}') == (None, reason)


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (b'{"c":"\xff"}', "not UTF-8 text"),
        (b'{"c":"a\nb"}', "Invalid control character at: line 1 column 8 (char 7)"),
        (b'{"c":"a\0b"}', "Invalid control character at: line 1 column 8 (char 7)"),
        (b'{"d":Inf}', "Expecting value: line 1 column 6 (char 5)"),
        (b'{"d":' + b"[" * 5000 + b"]" * 5000 + b"}", "nested too deeply"),
        (b'{"c":"x"} {"c":"y"}', "Extra data: line 1 column 11 (char 10)"),
    ],
)
def test_what_is_no_json_is_bad(value, reason):
    assert decode(pa.string(), value) == (None, reason)


@pytest.mark.parametrize(
    "value",
    [
        b'\xef\xbb\xbf{"c":"x"}',
        '{"c":"x"}'.encode("utf-16"),
        b' \r\n\t{"c"\n:\n"x"}\n',
        b'{"c":1,"c":"x"}',
        b'{"d":NaN,"c":"x"}',
        b'{"\\u0063":"x"}',
        b'{"d":' + b"1" * 5000 + b',"c":"x"}',
        b'{"d":"\\ud800","c":"x"}',
        b'{"d":"\xed\xa0\x80","c":"x"}',
    ],
)
def test_what_pythons_parser_takes_is_taken(value):
    assert decode(pa.string(), value) == ("x", None)


def test_null_is_bad_where_the_column_is_not_null():
    reason = "c: null in a column that is NOT NULL"
    assert decode(pa.int32(), "{}", nullable=False) == (None, reason)
    assert decode(pa.int32(), '{"c":null}', nullable=False) == (None, reason)
    inner = pa.struct([pa.field("x", pa.int32(), nullable=False)])
    assert decode(inner, '{"c":{}}') == (None, "c.x: null in a column that is NOT NULL")
    assert decode(inner, '{"c":null}') == (None, None)


def test_there_is_one_zero():
    assert str(decode(pa.float64(), '{"c":-0}')[0]) == "0.0"
    assert str(decode(pa.float64(), '{"c":-0.0}')[0]) == "0.0"


def test_ordinary_values_go_the_fast_way():
    # Were they not, everything would still be right, and six times slower.
    kinds = {
        "text": (pa.string(), "ключ \\n \\ud83d\\ude00"),
        "whole": (pa.int32(), 5),
        "float": (pa.float32(), 0.5),
        "flag": (pa.bool_(), True),
        "price": (pa.decimal128(10, 2), 12.3),
        "bytes": (pa.binary(), "QQ=="),
        "day": (pa.date32(), "2026-02-28"),
        "time": (UTC, "2026-02-28T10:00:00.5Z"),
        "list": (pa.list_(pa.struct([("x", pa.int32())])), [{"x": 1}, None, {}]),
    }
    kind = pa.struct([(name, column) for name, (column, _) in kinds.items()])
    rows = [{name: value for name, (_, value) in kinds.items()}, dict.fromkeys(kinds), {"extra": [1, {"a": []}]}]
    values = pa.array([json.dumps(row).encode() for row in rows], pa.binary())
    assert plausible(values, kind).all()
    assert not isinstance(FastJson(kind).rows(values), Doubt)


A_ROW_TOO_MANY = b'{"c":8}{"c":9}'


@pytest.mark.parametrize(
    "halves",
    [
        (b'{"c":2,', b'"d":3}'),
        (b'{"c":2,"d":', b'{"c":3}}'),
        (b'{"d":[{"c":2}', b',{"c":3}]}'),
        (b'{"d":"}', b'{"}'),
        (b'{"c":2', b'}{"c":3}'),
        (b'{"c":2', b"}"),
        (b'{"c":2', b""),
        (b'{"d":[{}', b"{}]}"),
        (b'{"c":2}}', b'{{"c":3}'),
        (b'{"c":2}\0{}', b'{"c":2}\0{"d":3}'),
    ],
)
def test_rows_never_shift_where_values_could_join_and_split(halves):
    decoder = JsonDecoder(pa.schema([("c", pa.int32())]))
    values = [b'{"c":1}', *halves, A_ROW_TOO_MANY, b'{"c":5}'] * 50
    decoded = decoder.decode(pa.array(values, pa.binary()))
    assert decoded.rows.to_pylist() == [{"c": 1}, None, None, None, {"c": 5}] * 50
    assert set(decoded.bad) == {index for index in range(250) if index % 5 in (1, 2, 3)}


def test_a_zero_byte_does_not_hide_what_follows_it():
    decoder = JsonDecoder(pa.schema([("c", pa.int32())]))
    values = [*[b'{"c":1}'] * 98, A_ROW_TOO_MANY, b'{"c":2}\0{}', b'{"c":5}']
    decoded = decoder.decode(pa.array(values, pa.binary()))
    assert decoded.rows.to_pylist() == [*[{"c": 1}] * 98, None, None, {"c": 5}]


@pytest.mark.parametrize("size", [64, 100])
def test_pretty_printed_values_go_the_fast_way_too(size):
    value = json.dumps({"c": [1, 2], "d": {"x": "\n"}}, indent="\t").encode()
    values = pa.array([value] * size, pa.binary())
    kind = pa.struct([("c", pa.list_(pa.int32()))])
    assert plausible(values, kind).all()
    rows = FastJson(kind).rows(values)
    assert not isinstance(rows, Doubt)
    assert rows.to_pylist() == [{"c": [1, 2]}] * size


@pytest.mark.parametrize("bad", [b'{"c":1}{"c":2}', b'{"c":1.5}', b'{"c":"x"}', b"", b"{"])
def test_a_few_large_values_go_the_fast_way_and_leave_a_bad_one_out(bad):
    large = b'{"d":"' + b"x" * 20_000 + b'","c":3}'
    decoder = JsonDecoder(pa.schema([("c", pa.int32())]))
    for values in ([bad, large], [large, bad, large], [bad.ljust(20_000)], [bad[:-1] + b" " * 20_000 + b"}"]):
        decoded = decoder.decode(pa.array(values, pa.binary()))
        assert decoded.rows.to_pylist() == [{"c": 3} if value is large else None for value in values]
        assert list(decoded.bad) == [index for index, value in enumerate(values) if value is not large]
