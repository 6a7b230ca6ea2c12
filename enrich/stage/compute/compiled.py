"""What became of an expression: a function over columns, or the reason why only Spark can evaluate it."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import pyarrow as pa
import pyarrow.compute as pc

from enrich.stage.compute.kernels import KERNELS
from enrich.stage.compute.kernels.values import Value, as_array
from enrich.stage.compute.nodes import Call, Constant, Field, Node, Path, fields_of


@dataclass(frozen=True)
class Compiled:
    """An expression that workers evaluate. It can be pickled."""

    text: str
    root: Node

    @property
    def kind(self) -> pa.DataType:
        """The type of the answers, as Arrow has what Spark says."""
        return self.root.kind

    @cached_property
    def fields(self) -> tuple[Path, ...]:
        """The paths of the fields that it reads, each once, in order."""
        return tuple(dict.fromkeys(field.path for field in fields_of(self.root)))

    def evaluate(self, columns: Mapping[str, pa.Array], count: int) -> pa.Array:
        """The answers for `count` events, of type `kind`: null where the expression is null or fails. `columns` has the
        fields at the paths' first names, with the types of the schema; text is UTF-8."""
        return as_array(_value(self.root, columns), count)


@dataclass(frozen=True)
class NotCompiled:
    """An expression that only Spark evaluates. `reason` is a sentence for people."""

    text: str
    reason: str


def _value(node: Node, columns: Mapping[str, pa.Array]) -> Value:
    if isinstance(node, Field):
        return _field(node, columns)
    if isinstance(node, Constant):
        return pa.scalar(node.value, node.kind)
    return _called(node, columns)


def _field(node: Field, columns: Mapping[str, pa.Array]) -> pa.Array:
    column = columns[node.path[0]]
    # A part of a null object is null, whatever stands below it.
    return pc.struct_field(column, list(node.path[1:])) if len(node.path) > 1 else column


def _called(node: Call, columns: Mapping[str, pa.Array]) -> Value:
    values = [_value(argument, columns) for argument in node.arguments]
    kernel = KERNELS[node.function]
    if any(isinstance(value, pa.Array) for value in values):
        return kernel(node, values)
    # Some of Arrow's functions make a column of constants, others a constant.
    return kernel(node, [pa.repeat(value, 1) for value in values])[0]
