"""An expression as a tree that travels to the workers: fields, constants and calls of functions."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

Path = tuple[str, ...]
"""A field's name; with more names, a field inside of it."""


@dataclass(frozen=True)
class Field:
    """A field of the event, or of a looked-up object."""

    path: Path
    kind: pa.DataType


@dataclass(frozen=True)
class Constant:
    """The same value for all events, as Python has it; None is null."""

    value: Any
    kind: pa.DataType


@dataclass(frozen=True)
class Call:
    """A function of the table `KERNELS`. `options` are what it knows before the first event, such as names."""

    function: str
    arguments: tuple["Node", ...]
    kind: pa.DataType
    options: tuple[Any, ...] = ()


Node = Field | Constant | Call


def fields_of(node: Node) -> Iterator[Field]:
    """All fields of the tree, from left to right, some of them several times."""
    if isinstance(node, Field):
        yield node
    elif isinstance(node, Call):
        for argument in node.arguments:
            yield from fields_of(argument)
