"""Columns and constants as kernels get them, and the way to numpy and back."""

from collections.abc import Callable, Sequence
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from enrich.stage.compute.nodes import Call

Value: TypeAlias = pa.Array | pa.Scalar
"""A column, or one value for all events."""
Kernel = Callable[[Call, Sequence[Value]], Value]
"""Answers a call for the values of its arguments, of which one is a column. It fails for no value: where Spark's
function fails it says null."""
Bits = npt.NDArray[np.bool_]


def as_array(value: Value, count: int) -> pa.Array:
    return pa.repeat(value, count) if isinstance(value, pa.Scalar) else value


def on_columns(kernel: Callable[[Call, list[pa.Array]], pa.Array]) -> Kernel:
    """A kernel for which constants become columns."""

    def answered(call: Call, values: Sequence[Value]) -> Value:
        count = next(len(value) for value in values if isinstance(value, pa.Array))
        return kernel(call, [as_array(value, count) for value in values])

    return answered


def numbers(column: pa.Array) -> npt.NDArray[np.generic]:
    """The numbers of a column, with 0 for null."""
    if column.null_count:
        column = pc.fill_null(column, pa.scalar(0, column.type))
    found: npt.NDArray[np.generic] = column.to_numpy(zero_copy_only=False)
    return found


def bits(column: pa.BooleanArray) -> Bits:
    """The booleans of a column, false for null."""
    return np.asarray(pc.fill_null(column, False).to_numpy(zero_copy_only=False), np.bool_)


def nulls(*columns: pa.Array) -> Bits | None:
    """Where any of the columns is null; None where none is."""
    found = None
    for column in columns:
        if column.null_count:
            own = np.asarray(column.is_null().to_numpy(zero_copy_only=False), np.bool_)
            found = own if found is None else found | own
    return found


def without(column: pa.Array, dropped: Bits) -> pa.Array:
    """The column, null where `dropped`."""
    return pc.if_else(pa.array(dropped), pa.scalar(None, column.type), column) if dropped.any() else column
