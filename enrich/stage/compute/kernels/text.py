"""Functions of text. Positions and lengths count characters, as Spark does."""

from collections.abc import Mapping, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from enrich.stage.compute.kernels.values import Kernel, Value
from enrich.stage.compute.nodes import Call


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
    # Arrow 26 answers too few rows if it skips nulls and a separator is one.
    separator = pc.coalesce(values[0], pa.scalar(""))
    joined = pc.binary_join_element_wise(*values[1:], separator, null_handling="skip")
    return pc.if_else(pc.is_valid(values[0]), joined, pa.scalar(None, pa.string()))


def _length(_: Call, values: Sequence[Value]) -> Value:
    return pc.utf8_length(values[0])


TEXT: Mapping[str, Kernel] = {
    "trim": _trim,
    "trim_left": _trim_left,
    "trim_right": _trim_right,
    "concat": _concat,
    "concat_with": _concat_with,
    "length": _length,
}
