"""Decimals: rounded half up, null where the digits do not fit."""

from collections.abc import Mapping
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from enrich.stage.compute.kernels.values import Kernel, nulls, on_columns
from enrich.stage.compute.nodes import Call

_WIDE = 76
"""Digits of Arrow's wider decimal."""
_MOST = 38


def fitted(column: pa.Array, kind: pa.Decimal128Type) -> pa.Array:
    """Decimals with any digits as decimals of the type."""
    scale = column.type.scale
    wide = column.cast(pa.decimal256(min(_WIDE, column.type.precision + 1), scale))
    if kind.scale < scale:
        wide = pc.round(wide, ndigits=kind.scale, round_mode="half_towards_infinity")
    digits = kind.precision - kind.scale
    if wide.type.precision - scale > digits:
        limit = pa.scalar(Decimal(10) ** digits, wide.type)
        fits = pc.and_(pc.less(wide, limit), pc.greater(wide, pc.negate(limit)))
        wide = pc.if_else(fits, wide, pa.scalar(None, wide.type))
    return wide.cast(pa.decimal256(_WIDE, max(scale, kind.scale))).cast(kind)


def _fitted(call: Call, values: list[pa.Array]) -> pa.Array:
    return fitted(values[0], call.kind)


def _from_whole(call: Call, values: list[pa.Array]) -> pa.Array:
    return fitted(values[0].cast(pa.int64()).cast(pa.decimal128(19, 0)), call.kind)


def _to_whole(call: Call, values: list[pa.Array]) -> pa.Array:
    """Cut towards zero, and the last bits of what is too long."""
    column = values[0]
    wide = column.cast(pa.decimal256(column.type.precision + 1, column.type.scale))
    cut = pc.round(wide, ndigits=0, round_mode="towards_zero").cast(pa.decimal128(_MOST, 0))
    whole = np.frombuffer(cut.buffers()[1], np.int64)[cut.offset * 2 : (cut.offset + len(cut)) * 2 : 2]
    return pa.array(whole.astype(call.kind.to_pandas_dtype()), call.kind, mask=nulls(column))


def _to_floating(call: Call, values: list[pa.Array]) -> pa.Array:
    # Through text: Arrow's own cast is not rounded to the nearest.
    return values[0].cast(pa.string()).cast(call.kind)


def _to_boolean(_: Call, values: list[pa.Array]) -> pa.Array:
    return pc.not_equal(values[0], pa.scalar(0, values[0].type))


DECIMALS: Mapping[str, Kernel] = {
    "fitted": on_columns(_fitted),
    "decimal_of_whole": on_columns(_from_whole),
    "whole_of_decimal": on_columns(_to_whole),
    "floating_of_decimal": on_columns(_to_floating),
    "boolean_of_decimal": on_columns(_to_boolean),
}
