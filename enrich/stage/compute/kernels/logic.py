"""Truth with three values, and the choice between values."""

from collections.abc import Mapping, Sequence
from functools import reduce

import pyarrow as pa
import pyarrow.compute as pc

from enrich.stage.compute.kernels.values import Kernel, Value, on_columns
from enrich.stage.compute.nodes import Call


def _and(_: Call, values: Sequence[Value]) -> Value:
    return reduce(pc.and_kleene, values)


def _or(_: Call, values: Sequence[Value]) -> Value:
    return reduce(pc.or_kleene, values)


def _not(_: Call, values: Sequence[Value]) -> Value:
    return pc.invert(values[0])


def _is_null(_: Call, values: Sequence[Value]) -> Value:
    return pc.is_null(values[0])


def _is_not_null(_: Call, values: Sequence[Value]) -> Value:
    return pc.is_valid(values[0])


def _coalesce(_: Call, values: Sequence[Value]) -> Value:
    return pc.coalesce(*values)


def _choose(call: Call, values: Sequence[Value]) -> Value:
    """Condition, value, condition, value, ..., and the value for all others, without which these are null."""
    has_other = len(values) % 2 == 1
    chosen = values[-1] if has_other else pa.scalar(None, call.kind)
    pairs = values[:-1] if has_other else values
    for condition, value in reversed(list(zip(pairs[::2], pairs[1::2], strict=True))):
        chosen = pc.if_else(pc.coalesce(condition, pa.scalar(False)), value, chosen)
    return chosen


def _failed(_: Call, values: Sequence[Value]) -> Value:
    """The answers of a function that has some for all arguments but null, and the arguments."""
    answers, *arguments = values
    return reduce(pc.and_, map(pc.is_valid, arguments), pc.is_null(answers))


def _unless(call: Call, values: Sequence[Value]) -> Value:
    """The first, null where one of the others is true."""
    value, *failures = values
    return pc.if_else(reduce(pc.or_, failures), pa.scalar(None, call.kind), value)


def _object(call: Call, values: list[pa.Array]) -> pa.Array:
    return pa.StructArray.from_arrays(values, fields=list(call.kind))


LOGIC: Mapping[str, Kernel] = {
    "and": _and,
    "or": _or,
    "not": _not,
    "is_null": _is_null,
    "is_not_null": _is_not_null,
    "coalesce": _coalesce,
    "choose": _choose,
    "failed": _failed,
    "unless": on_columns(_unless),
    "object": on_columns(_object),
}
