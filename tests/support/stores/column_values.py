"""Random values of random column types: what a column can hold, with the ends of each range."""

import math
import random
import struct
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa

_CHARACTERS = [*map(chr, range(0x80)), *'"\\"\\', "é", "\u2028", "\U0001f600", "\ufffd", "\u00ad"]
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_FIRST, _LAST = datetime(1, 1, 1, tzinfo=UTC), datetime(9999, 12, 31, 23, 59, 59, 999_999, UTC)
_MICROSECOND = timedelta(microseconds=1)

FLOATS: tuple[pa.DataType, ...] = (pa.float32(), pa.float64())
OTHERS: tuple[pa.DataType, ...] = (
    *(pa.string(), pa.binary(), pa.bool_(), pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.date32()),
    *(pa.timestamp("us", "UTC"), pa.decimal128(5, 2), pa.decimal128(10, 0), pa.decimal128(38, 10)),
    pa.decimal128(38, 38),
)


def random_type(source: random.Random, leaves: tuple[pa.DataType, ...], deep: int = 3) -> pa.DataType:
    """Maps have keys of text."""
    form = source.randrange(6) if deep else 5
    if form == 0:
        return pa.list_(random_type(source, leaves, deep - 1))
    if form == 1:
        return pa.map_(pa.string(), random_type(source, leaves, deep - 1))
    if form == 2:
        names = source.sample(["a", "b c", 'q"', "ü", "\\n"], source.randint(1, 3))
        return pa.struct([(name, random_type(source, leaves, deep - 1)) for name in names])
    return source.choice(leaves)


def random_values(source: random.Random, kind: pa.DataType, count: int) -> list[Any]:
    return [_value(source, kind) for _ in range(count)]


def _value(source: random.Random, kind: pa.DataType) -> Any:
    if source.random() < 0.1:
        return None
    if pa.types.is_list(kind):
        return random_values(source, kind.value_type, source.randrange(4))
    if pa.types.is_map(kind):
        keys = {_text(source) for _ in range(source.randrange(4))}
        return [(key, _value(source, kind.item_type)) for key in keys]
    if pa.types.is_struct(kind):
        return {kind.field(i).name: _value(source, kind.field(i).type) for i in range(kind.num_fields)}
    for matches, make in _SCALARS:
        if matches(kind):
            return make(source, kind)
    raise AssertionError(kind)


def _text(source: random.Random) -> str:
    return "".join(source.choices(_CHARACTERS if source.random() < 0.5 else "abc 1.5", k=source.randrange(9)))


def _whole(source: random.Random, kind: pa.DataType) -> int:
    limit = 1 << (int(kind.bit_width) - 1)
    return source.choice([-limit, limit - 1, 0, -1, source.randrange(-limit, limit), source.randrange(100)])


def _decimal(source: random.Random, kind: pa.Decimal128Type) -> Decimal:
    most = source.choice([1, 10**3, 10**kind.precision])
    whole = source.randrange(-most + 1, most)
    return Decimal((whole < 0, tuple(map(int, str(abs(whole)))), -kind.scale))


def _floating(source: random.Random, kind: pa.DataType) -> float:
    is_single = kind.bit_width == 32
    bits = source.randbytes(kind.bit_width // 8)
    any_bits = struct.unpack("f" if is_single else "d", bits)[0]
    power = float(f"{source.choice(['', '-'])}{source.randint(1, 99)}e{source.randint(-12, 30)}")
    near = source.randint(-(10**9), 10**9) / source.choice([1, 10, 1000, 3])
    found = source.choice([any_bits, power, near, 0.0, -0.0, math.nan, math.inf, -math.inf, 1e7, 9999999.0, 1e-3])
    return float(struct.unpack("f", struct.pack("f", found))[0]) if is_single else found


def _time(source: random.Random, _: pa.DataType) -> datetime:
    at = source.choice([_FIRST, _LAST, _EPOCH, _EPOCH + source.randrange(2**51) * _MICROSECOND])
    return at.replace(microsecond=source.choice([0, 1, 500_000])) if source.random() < 0.5 else at


_SCALARS: tuple[tuple[Callable[[pa.DataType], bool], Callable[[random.Random, Any], Any]], ...] = (
    (pa.types.is_string, lambda source, _: _text(source)),
    (pa.types.is_binary, lambda source, _: source.randbytes(source.randrange(9))),
    (pa.types.is_boolean, lambda source, _: source.random() < 0.5),
    (pa.types.is_integer, _whole),
    (pa.types.is_decimal, _decimal),
    (pa.types.is_floating, _floating),
    (pa.types.is_timestamp, _time),
    (pa.types.is_date, lambda source, _: date.fromordinal(source.randint(1, date.max.toordinal()))),
)
