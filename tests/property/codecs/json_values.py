"""JSON as producers write it, and as it should never be: what the two parsers could disagree about."""

import json

import pyarrow as pa
from hypothesis import strategies as st

NUMBERS = [
    *("0", "-0", "1", "-1", "127", "128", "1.0", "1.5", "1e2", "1E-3", "-0.0", "1e400", "-1e400", "1e-400", "1e39"),
    *(
        "3.4028235e38",
        "3.4028235677973366e38",
        "3.4028235677973362e38",
        "16777217",
        "999.99",
        "999.995",
        "1000",
        "1.005",
    ),
    *("9223372036854775807", "9223372036854775808", "-9223372036854775809", "12345678901234567890.12345"),
    *("0.1234567890123456789", "123456789012345678901234567.8", "1e99999999999999999999", "1" * 4299, "1" * 5000),
    *("01", "1.", ".5", "+1", "NaN", "Infinity", "-Infinity", "Inf", "-Inf", "nan", "1_0", "0x1"),
]

TEXTS = [
    *("", "a", "é", "\ud800", "\udc00", "\U0001f600", "a\\b", '"', "\0", "\n", "\t", "\x7f", "NaN"),
    *(
        "QQ==",
        "QR==",
        "Q",
        "Q===",
        "QUI=",
        "1.5",
        "1.234",
        "1e2",
        " 1",
        "1_0",
        "\u0661",
        "+1",
        "1.",
        "Infinity",
        "0E-10",
    ),
    *("1e999999999", "2026-02-28", "2026-02-30", "0000-01-01", "0001-01-01", "9999-12-31", "20260228", "2026-W09-6"),
    *("2026-02-28T10", "2026-02-28T10:00", "2026-02-28T10:00:00", "2026-02-28 10:00:00Z", "2026-02-28T10:00:00.1Z"),
    *("2026-02-28T10:00:00.123456789Z", "2026-02-28T10:00:00+02:00", "2026-02-28T10:00:00+0230"),
    *("2026-02-28T10:00:00-02", "2026-02-28T10:00:00+24:00", "2026-02-28T10:00:00+05:60", "2026-02-28T24:00:00Z"),
    *("2026-02-28T23:59:60Z", "0001-01-01T00:00:00+05:00", "9999-12-31T23:59:59-05:00", "0000-01-01T00:00:00Z"),
    *("2026-02-28t10:00:00z", "2026-02-28T10:00:00,5Z", "1600-01-01T00:00:00Z", "2026-2-8", "12026-02-28"),
]

KEYS = ('"c"', '"c"', '"x"', '"y"', '"\\u0063"', '"c\\u0000"', '"\\ud800"', "c")

KINDS = [
    *(pa.string(), pa.int8(), pa.int32(), pa.int64(), pa.float32(), pa.float64(), pa.bool_(), pa.binary()),
    *(pa.decimal128(5, 2), pa.decimal128(38, 10), pa.date32(), pa.timestamp("us", tz="UTC"), pa.timestamp("us")),
    *(pa.list_(pa.int32()), pa.list_(pa.timestamp("us", tz="UTC")), pa.map_(pa.string(), pa.int32())),
    pa.struct([("x", pa.int32()), pa.field("c", pa.string(), nullable=False)]),
    pa.list_(pa.struct([pa.field("y", pa.float32(), nullable=False)])),
]

_simple = (
    st.sampled_from(NUMBERS)
    | st.sampled_from(TEXTS).flatmap(lambda text: st.booleans().map(lambda ascii: json.dumps(text, ensure_ascii=ascii)))
    | st.sampled_from(["null", "true", "false", "tru", "'a'", "[", "]", "{", "}", ","])
)


def _objects(values: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    member = st.tuples(st.sampled_from(KEYS), values).map(":".join)
    return st.tuples(st.sampled_from(["", " ", "\t", "\n"]), st.lists(member, max_size=3)).map(
        lambda parts: "{" + parts[0] + ",".join(parts[1]) + "}"
    )


_values = st.recursive(
    _simple,
    lambda inner: st.lists(inner, max_size=3).map(lambda items: "[" + ",".join(items) + "]") | _objects(inner),
    max_leaves=6,
)
objects = _objects(_values)


@st.composite
def damaged(draw: st.DrawFn) -> str:
    text = draw(objects)
    place = draw(st.integers(0, len(text)))
    match draw(st.integers(0, 3)):
        case 0:
            return text[:place]
        case 1:
            return text + draw(st.sampled_from([" ", "x", "}", "{}", "\n", ",", "\ufeff"]))
        case 2:
            return text[:place] + draw(st.sampled_from('{}[],:"0\\ \x00\n')) + text[place:]
    return text + draw(objects)


documents = (
    (objects | damaged()).map(lambda text: text.encode("utf-8", "surrogatepass"))
    | st.binary(max_size=40)
    | st.just(b'{"d":' + b"[" * 2000 + b"]" * 2000 + b"}")
)
columns = st.tuples(st.sampled_from(KINDS), st.integers(0, 9)).map(
    lambda drawn: pa.schema([pa.field("c", drawn[0], nullable=drawn[1] > 0)])
)
