"""Avro schemas with a column type that each can fill, and values that fastavro writes by them."""

import datetime as dt
import io
from dataclasses import dataclass
from decimal import Decimal
from itertools import count
from typing import Any

import fastavro
import pyarrow as pa
from hypothesis import strategies as st

_UTC = pa.timestamp("us", tz="UTC")
_times = st.datetimes(dt.datetime(1, 1, 2), dt.datetime(9999, 12, 30), timezones=st.just(dt.UTC))
_ints = st.integers(-(2**31), 2**31 - 1) | st.integers(-3, 3)
_longs = st.integers(-(2**63), 2**63 - 1) | st.integers(-3, 3)
_names = count()


@dataclass(frozen=True)
class Typed:
    schema: Any
    kind: pa.DataType
    values: st.SearchStrategy[Any]


def _is_short_for_all(number: int) -> bool:
    """Of -128, -32768 ... fastavro writes one byte more than need be, and than Java does."""
    return number not in (-(2**7), -(2**15), -(2**23), -(2**31))


def logical(base: str, name: str, **more: int) -> dict[str, Any]:
    return {"type": base, "logicalType": name, **more}


def _named(kind: str, **more: Any) -> dict[str, Any]:
    return {"type": kind, "name": f"n{next(_names)}", **more}


def _simple() -> list[Typed]:
    cents = (
        st.integers(-(10**10) + 1, 10**10 - 1).filter(_is_short_for_all).map(lambda number: Decimal(number).scaleb(-2))
    )
    return [
        Typed("boolean", pa.bool_(), st.booleans()),
        Typed("int", pa.int32(), _ints),
        Typed("int", pa.int64(), _ints),
        Typed("long", pa.int64(), _longs),
        Typed("float", pa.float32(), st.floats(width=32, allow_nan=False)),
        Typed("float", pa.float64(), st.floats(width=32, allow_nan=False)),
        Typed("double", pa.float64(), st.floats(allow_nan=False)),
        Typed("bytes", pa.binary(), st.binary(max_size=200)),
        Typed("string", pa.string(), st.text(max_size=100)),
        Typed(_named("fixed", size=5), pa.binary(), st.binary(min_size=5, max_size=5)),
        Typed(_named("enum", symbols=["A", "B", "C"]), pa.string(), st.sampled_from("ABC")),
        Typed(logical("int", "date"), pa.date32(), st.dates()),
        Typed(logical("long", "timestamp-millis"), _UTC, _times.map(lambda t: t.replace(microsecond=5000))),
        Typed(logical("long", "timestamp-micros"), _UTC, _times),
        Typed(logical("bytes", "decimal", precision=12, scale=2), pa.decimal128(12, 2), cents),
        Typed(logical("bytes", "decimal", precision=12, scale=2), pa.decimal128(20, 5), cents),
        Typed(
            {**_named("fixed", size=7), "logicalType": "decimal", "precision": 12, "scale": 2},
            pa.decimal128(12, 2),
            cents,
        ),
    ]


def _nested(inner: st.SearchStrategy[Typed]) -> st.SearchStrategy[Typed]:
    return (
        inner.map(
            lambda t: Typed({"type": "array", "items": t.schema}, pa.list_(t.kind), st.lists(t.values, max_size=5))
        )
        | inner.map(
            lambda t: Typed(
                {"type": "map", "values": t.schema},
                pa.map_(pa.string(), t.kind),
                st.dictionaries(st.text(max_size=5), t.values, max_size=4),
            )
        )
        | inner.filter(lambda t: not isinstance(t.schema, list)).map(
            lambda t: Typed(["null", t.schema], t.kind, st.none() | t.values)
        )
        | inner.filter(lambda t: not isinstance(t.schema, list)).map(
            lambda t: Typed([t.schema, "null"], t.kind, st.none() | t.values)
        )
        | st.lists(inner, min_size=1, max_size=3).map(record)
    )


def record(fields: list[Typed]) -> Typed:
    names = [f"f{index}" for index in range(len(fields))]
    schema = _named("record", fields=[{"name": name, "type": t.schema} for name, t in zip(names, fields, strict=True)])
    kind = pa.struct([(name, t.kind) for name, t in zip(names, fields, strict=True)])
    values = st.fixed_dictionaries({name: t.values for name, t in zip(names, fields, strict=True)})
    return Typed(schema, kind, values)


def _own_names(typed: Typed) -> bool:
    """Whether no named type stands twice in the schema, as a strategy may draw the same one again."""
    return (names := str(typed.schema).split("'name': 'n")[1:]) == list(
        dict.fromkeys(n.split("'")[0] for n in names)
    ) or (len({n.split("'")[0] for n in names}) == len(names))


types = st.recursive(st.builds(_simple).flatmap(st.sampled_from), _nested, max_leaves=5)
records = st.lists(types, min_size=1, max_size=4).map(record).filter(_own_names)


def written(schema: Any, value: Any) -> bytes:
    data = io.BytesIO()
    fastavro.schemaless_writer(data, fastavro.parse_schema(schema), value)
    return data.getvalue()
