"""Functions of text. Positions and lengths count characters, as Spark does."""

from collections.abc import Callable, Mapping, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from enrich.stage.compute.kernels.values import Kernel, Value
from enrich.stage.compute.nodes import Call

_LONGEST = 2**31 - 1


def _trim(_: Call, values: Sequence[Value]) -> Value:
    # Spaces alone: a tab or another kind of space stays.
    return pc.ascii_trim(values[0], characters=" ")


def _trim_left(_: Call, values: Sequence[Value]) -> Value:
    return pc.ascii_ltrim(values[0], characters=" ")


def _trim_right(_: Call, values: Sequence[Value]) -> Value:
    return pc.ascii_rtrim(values[0], characters=" ")


def _concat(_: Call, values: Sequence[Value]) -> Value:
    return pc.binary_join_element_wise(*values, pa.scalar(""))


def _concat_with(_: Call, values: Sequence[Value]) -> Value:
    """The separator first. Null parts are left out; a null separator makes null."""
    # One by one: Arrow 26 loses rows when it skips nulls itself.
    separator, *parts = values
    joined: Value = pa.scalar(None, pa.string())
    for part in parts:
        joined = pc.coalesce(pc.binary_join_element_wise(joined, part, separator), joined, part)
    return pc.if_else(pc.is_valid(separator), pc.coalesce(joined, pa.scalar("")), pa.scalar(None, pa.string()))


def _length(_: Call, values: Sequence[Value]) -> Value:
    return pc.utf8_length(values[0])


def _substring(call: Call, values: Sequence[Value]) -> Value:
    """`options`: Spark's position, from 1 or, if negative, from the end, and the length."""
    position, length = call.options
    start = position - 1 if position > 0 else position
    stop = start + length
    if length <= 0:
        start = stop = 0
    elif position < 0 <= stop or stop >= _LONGEST:
        return pc.utf8_slice_codeunits(values[0], start=start)
    return pc.utf8_slice_codeunits(values[0], start=start, stop=stop)


def _matches(function: Callable[..., Value]) -> Kernel:
    """`options`: the part that is looked for."""

    def answered(call: Call, values: Sequence[Value]) -> Value:
        return function(values[0], pattern=call.options[0])

    return answered


def _replaced(call: Call, values: Sequence[Value]) -> Value:
    pattern, replacement = call.options
    return pc.replace_substring(values[0], pattern=pattern, replacement=replacement)


TEXT: Mapping[str, Kernel] = {
    "trim": _trim,
    "trim_left": _trim_left,
    "trim_right": _trim_right,
    "concat": _concat,
    "concat_with": _concat_with,
    "length": _length,
    "substring": _substring,
    "starts_with": _matches(pc.starts_with),
    "ends_with": _matches(pc.ends_with),
    "contains": _matches(pc.match_substring),
    "like": _matches(pc.match_substring_regex),
    "replace": _replaced,
}
