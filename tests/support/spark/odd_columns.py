"""Columns of one fixed schema with odd values, for expressions: the ends of each type, texts that look like numbers and
times, letters that change their length with their case."""

import math
import random
import struct
from collections.abc import Callable
from datetime import date
from decimal import Decimal
from typing import Any

import pyarrow as pa

TIME = pa.timestamp("us", "UTC")
_DEEP = pa.struct([("x", pa.float64()), ("name", pa.string())])
_TAGS = pa.list_(pa.field("element", pa.string()))
_WHOLE = pa.list_(pa.field("element", pa.int32()))
_DEVICE = pa.struct([("id", pa.string()), ("n", pa.int32()), ("Deep", _DEEP)])
SCHEMA = pa.schema(
    [
        *[("s", pa.string()), ("w", pa.string()), ("u", pa.string()), ("z", pa.string())],
        *[("b", pa.int8()), ("h", pa.int16()), ("i", pa.int32()), ("j", pa.int32())],
        *[("l", pa.int64()), ("k", pa.int64()), ("f", pa.float32()), ("d", pa.float64()), ("e", pa.float64())],
        *[
            ("m", pa.decimal128(10, 2)),
            ("q", pa.decimal128(5, 4)),
            ("p", pa.decimal128(38, 10)),
            ("n", pa.decimal128(18, 0)),
        ],
        *[("o", pa.bool_()), ("r", pa.bool_()), ("t", TIME), ("v", TIME), ("a", pa.date32()), ("c", pa.date32())],
        *[("y", pa.binary()), ("device", _DEVICE), ("tags", _TAGS), ("whole", _WHOLE)],
    ]
)

_WORDS = [
    "",
    " ",
    "a",
    "A",
    "ab",
    "abc",
    "x_y",
    "a%b",
    "yes",
    "NO",
    "true",
    " f ",
    "null",
    "it's",
    "\\",
    "\t",
    "z" * 300,
]
_LETTERS = [
    *"ßİŉǅǰΐΣςΆάᾳᾼﬁÅK\u0131\u017f\u03c3",
    *["ΑΣ", "ΟΔΥΣΣΕΥΣ", "a.Σ", "aΣ.b", "Σ", "\u0345Σ", "a\u0301Σ", "\U0001f600", "\U00010400", "\ufffd", "\u2028"],
    *[
        "é",
        "e\u0301",
        "漢字",
        "\u200b",
        "\u00a0",
        "\u3000",
        "\u00ad",
        "\x00",
        "\x7f",
        "\x1f",
        "\u1c89",
        "\ua7dc",
        "\uff21",
    ],
]
_NUMBER_PARTS = [
    "",
    "",
    " ",
    "+",
    "-",
    ".",
    "0",
    "00",
    "1",
    "9",
    "12",
    "e",
    "E5",
    "e-3",
    "d",
    "f",
    "\t",
    "\x7f",
    "\xa0",
    "٣",
]
_NUMBERS = [
    *["0", "-0", "+5", "127", "128", "-128", "-129", "32767", "32768", "2147483647", "2147483648", "-2147483649"],
    *["9223372036854775807", "9223372036854775808", "-9223372036854775808", "-9223372036854775809"],
    *[
        "00000000000000000000000000000000007",
        "99999999999999999999999",
        "1.5",
        "-1.9",
        "1.",
        ".5",
        ".",
        "-.",
        "+",
        "1e3",
    ],
    *[
        "NaN",
        "nan",
        "Infinity",
        "-inf",
        "+Infinity",
        "inf",
        "infinity ",
        "1d",
        "1.5f",
        "0x10",
        "0x1p3",
        "1_000",
        "1,000",
    ],
    *["4.9e-324", "2.4703282292062327e-324", "1.7976931348623159e308", "1e400", "123456789012345678901234567890.5"],
    *[
        "12345678.995",
        "99999999.994",
        "99999999.995",
        "-0.005",
        "0.00005",
        "\n7\r",
        "7 7",
        "1e-400",
        "NULL",
        "T",
        "12:30",
    ],
]
_DATES = [
    "2024-02-29",
    "2023-02-29",
    "1970-01-01",
    "0001-01-01",
    "9999-12-31",
    "10000-01-01",
    "2024-2-9",
    "2024",
    "24-01-01",
]
_HOURS = [
    "",
    "",
    " 00:00:00",
    "T10:00:00",
    " 23:59:59",
    " 24:00:00",
    "T1:2:3",
    " 10:00",
    "T10:00:00.5",
    " 10:00:00.1234567",
]
_ZONES = ["", "", "", "Z", "+01:00", "-18:00", "+19:00", " UTC", "z", "+0100", " +1:30"]


def odd_rows(source: random.Random, count: int) -> dict[str, pa.Array]:
    """Columns of the schema. About one value in eight is null."""
    return {field.name: odd_column(source, field, count) for field in SCHEMA}


def odd_column(source: random.Random, field: pa.Field, count: int) -> pa.Array:
    make = _BY_NAME.get(field.name) or (lambda source: _value(source, field.type))
    # Some columns have no null and no odd text, so that kernels take their quick ways too.
    how_often = source.choice([0, 0.125, 0.5])
    if pa.types.is_string(field.type) and source.random() < 0.2:
        make = plain_text
    values = [None if source.random() < how_often else make(source) for _ in range(count)]
    return pa.array(values, field.type)


def plain_text(source: random.Random) -> str:
    return source.choice([*_WORDS, str(source.randint(-1000, 1000)), "Abc Def"])


def odd_text(source: random.Random) -> str:
    parts = source.choice([_WORDS, _LETTERS, [*_WORDS, *_LETTERS], list("abcAB  12.-%_")])
    return "".join(source.choices(parts, k=source.choice([0, 1, 1, 2, 3, 5])))


def number_text(source: random.Random) -> str:
    form = source.randrange(4)
    if form == 0:
        return "".join(source.choices(_NUMBER_PARTS, k=source.randint(1, 6)))
    if form == 1:
        return source.choice(["", " ", "\t"]) + source.choice(_NUMBERS) + source.choice(["", "", " ", "\x00"])
    return source.choice([*_NUMBERS, str(source.randrange(-(2**70), 2**70)), repr(odd_double(source))])


def time_text(source: random.Random) -> str:
    day = source.choice([*_DATES, f"20{source.randint(10, 30)}-{source.randint(1, 12):02}-{source.randint(1, 31):02}"])
    text = day + source.choice(_HOURS) + source.choice(_ZONES)
    return source.choice([text, text, text, f" {text} ", text[: source.randint(0, len(text))]])


def odd_double(source: random.Random) -> float:
    any_bits: float = struct.unpack("d", source.randbytes(8))[0]
    near = source.randint(-(10**6), 10**6) / source.choice([1, 2, 10, 100, 3])
    ends = [
        0.0,
        -0.0,
        math.nan,
        math.inf,
        -math.inf,
        2.0**31,
        -(2.0**31) - 1,
        2.0**63,
        9.3e18,
        1e-5,
        0.5,
        1.5,
        127.5,
        128.0,
    ]
    return source.choice([any_bits, near, *ends, float(source.randint(-3, 3))])


def odd_whole(source: random.Random, bits: int) -> int:
    limit = 1 << (bits - 1)
    ends = [-limit, -limit + 1, limit - 1, limit - 2, 0, -1, 1]
    return source.choice([*ends, source.randrange(-limit, limit), source.randint(-12, 12), source.randint(-12, 12)])


def odd_decimal(source: random.Random, kind: pa.Decimal128Type) -> Decimal:
    most = source.choice([1, 10, 1000, 10**kind.precision])
    whole = source.choice([source.randrange(-most + 1, most), most - 1, 5])
    return Decimal((whole < 0, tuple(map(int, str(abs(whole)))), -kind.scale))


def _micros(source: random.Random) -> int:
    """Times that a reader of events makes: of the years 1 to 9999."""
    any_time = source.randrange(-62_135_596_800_000_000, 253_402_300_800_000_000)
    near = source.randint(-3, 3) * source.choice([1, 10**6, 3600 * 10**6, 86_400 * 10**6])
    return source.choice(
        [any_time, near, source.randrange(2 * 10**15), -62_135_596_800_000_000, 253_402_300_799_999_999]
    )


def _far(source: random.Random) -> int:
    """Times that expressions make of numbers, but not the very first ones."""
    return source.choice([_micros(source), source.randrange(-(2**63) + 10**14, 2**63), 2**63 - 1])


def _date(source: random.Random) -> date:
    return date.fromordinal(source.choice([1, date.max.toordinal(), 719_163, source.randint(1, date.max.toordinal())]))


def _value(source: random.Random, kind: pa.DataType) -> Any:
    if pa.types.is_struct(kind):
        inner = [kind.field(index) for index in range(kind.num_fields)]
        return {each.name: None if source.random() < 0.1 else _value(source, each.type) for each in inner}
    if pa.types.is_list(kind):
        return [None if source.random() < 0.2 else _value(source, kind.value_type) for _ in range(source.randrange(4))]
    if pa.types.is_integer(kind):
        return odd_whole(source, kind.bit_width)
    if pa.types.is_decimal(kind):
        return odd_decimal(source, kind)
    if pa.types.is_float32(kind):
        return struct.unpack("f", source.choice([source.randbytes(4), struct.pack("f", source.randint(-99, 99) / 8)]))[
            0
        ]
    return _BY_TYPE[str(kind)](source)


_BY_TYPE: dict[str, Callable[[random.Random], Any]] = {
    "string": odd_text,
    "binary": lambda source: source.choice([b"", source.randbytes(3), b"abc", b"a\xff"]),
    "bool": lambda source: source.random() < 0.5,
    "double": odd_double,
    str(TIME): _micros,
    "date32[day]": _date,
}
_BY_NAME: dict[str, Callable[[random.Random], Any]] = {"w": plain_text, "u": number_text, "z": time_text, "v": _far}
