"""Arithmetic as Java's: whole numbers wrap around, and a remainder has the sign of its dividend. Division by zero is
null."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from enrich.stage.compute.kernels.values import Kernel, Value, nulls, numbers, on_columns
from enrich.stage.compute.nodes import Call

_Numbers = npt.NDArray[Any]


def _of(operate: Callable[..., Value]) -> Kernel:
    def answered(_: Call, values: Sequence[Value]) -> Value:
        return operate(*values)

    return answered


def _negated(_: Call, values: Sequence[Value]) -> Value:
    return pc.negate(values[0])


def _absolute(_: Call, values: Sequence[Value]) -> Value:
    return pc.abs(values[0])


def _nonzero(operate: Callable[[_Numbers, _Numbers], _Numbers]) -> Kernel:
    """Two columns of numbers of one type. Null where the second is zero."""

    def answered(_: Call, values: list[pa.Array]) -> pa.Array:
        left, right = map(numbers, values)
        is_zero = right == 0
        mask = nulls(*values)
        safe = np.where(is_zero, right.dtype.type(1), right)
        with np.errstate(all="ignore"):
            found = operate(left, safe)
        return pa.array(found, values[0].type, mask=is_zero if mask is None else mask | is_zero)

    return on_columns(answered)


def _quotient(left: _Numbers, right: _Numbers) -> _Numbers:
    """Cut towards zero. The smallest number by -1 is itself."""
    by_minus_one = right == -1
    divisor = np.where(by_minus_one, right.dtype.type(1), right)
    floor = left // divisor
    is_below = (floor * divisor != left) & ((left < 0) != (divisor < 0))
    return np.where(by_minus_one, -left, floor + is_below.astype(left.dtype))


def _remainder(left: _Numbers, right: _Numbers) -> _Numbers:
    if left.dtype.kind == "i":
        right = np.where(right == -1, right.dtype.type(1), right)
    return np.fmod(left, right)


ARITHMETIC: Mapping[str, Kernel] = {
    "add": _of(pc.add),
    "subtract": _of(pc.subtract),
    "multiply": _of(pc.multiply),
    "negate": _negated,
    "absolute": _absolute,
    "divide": _nonzero(np.true_divide),
    "quotient": _nonzero(_quotient),
    "remainder": _nonzero(_remainder),
}
