"""Comparisons. Text and bytes are compared by bytes. For Spark NaN equals NaN and is larger than all other numbers."""

from collections.abc import Callable, Mapping, Sequence
from functools import reduce

import pyarrow as pa
import pyarrow.compute as pc

from enrich.stage.compute.kernels.values import Kernel, Value, on_columns
from enrich.stage.compute.nodes import Call


def equal(left: Value, right: Value) -> Value:
    same = pc.equal(left, right)
    if pa.types.is_floating(left.type):
        return pc.or_(same, pc.and_(pc.is_nan(left), pc.is_nan(right)))
    return same


def less(left: Value, right: Value) -> Value:
    below = pc.less(left, right)
    if pa.types.is_floating(left.type):
        return pc.or_(below, pc.and_(pc.invert(pc.is_nan(left)), pc.is_nan(right)))
    return below


def _same(left: Value, right: Value) -> Value:
    """Equal, where null equals null."""
    both = pc.and_(pc.is_null(left), pc.is_null(right))
    return pc.or_(both, pc.coalesce(equal(left, right), pa.scalar(False)))


def _of_two(compare: Callable[[Value, Value], Value]) -> Kernel:
    def answered(_: Call, values: Sequence[Value]) -> Value:
        return compare(*values)

    return answered


def _is_in(_: Call, values: list[pa.Array]) -> Value:
    return reduce(pc.or_kleene, (equal(values[0], other) for other in values[1:]))


def _is_one_of(call: Call, values: list[pa.Array]) -> Value:
    """`options` are the values, not null; the last says whether there also is a null."""
    *others, has_null = call.options
    found = pc.is_in(values[0], pa.array(others, values[0].type))
    unknown = pc.is_null(values[0])
    if has_null:
        unknown = pc.or_(unknown, pc.invert(found))
    return pc.if_else(unknown, pa.scalar(None, pa.bool_()), found)


COMPARISONS: Mapping[str, Kernel] = {
    "equal": _of_two(equal),
    "same": _of_two(_same),
    "less": _of_two(less),
    "less_equal": _of_two(lambda left, right: pc.invert(less(right, left))),
    "greater": _of_two(lambda left, right: less(right, left)),
    "greater_equal": _of_two(lambda left, right: pc.invert(less(left, right))),
    "in": on_columns(_is_in),
    "one_of": on_columns(_is_one_of),
}
