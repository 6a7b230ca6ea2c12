"""Fields, constants, objects, and what stands for something else."""

import re

import pyarrow as pa
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException

from enrich.stage.compute.kinds import DATE, TIME, kind_named
from enrich.stage.compute.nodes import Call, Constant, Field, Node
from enrich.stage.compute.rules.casts import cast
from enrich.stage.compute.rules.position import Position
from enrich.stage.compute.rules.reader import Reader, Rule
from enrich.stage.compute.rules.times import is_near
from enrich.stage.compute.tree import NotHere, Tree

_WHOLE_DATE = re.compile(r"\s*[+-]?\d{4}")
"""A time without a date is today's, whichever day that is."""


def _field(reader: Reader, tree: Tree, _: Position) -> Node:
    return reader.field(tree)


def _inner_field(reader: Reader, tree: Tree, _: Position) -> Node:
    outer = reader.read(tree.children[0], Position.SOMETIMES)
    if not isinstance(outer, Field):
        raise NotHere(f"workers read fields only of the event's objects, not of `{tree.children[0].java.sql()}`")
    inner = outer.kind.field(tree.java.ordinal())
    return Field((*outer.path, inner.name), inner.type)


def _literal(_: Reader, tree: Tree, __: Position) -> Node:
    return tree.constant()


def _null(_: Reader, tree: Tree, __: Position) -> Node:
    return Constant(None, tree.kind)


def _inside(reader: Reader, tree: Tree, position: Position) -> Node:
    """A function that Spark replaces by others: its only child is what replaces it."""
    return reader.read(tree.children[0], position)


def _replaced(reader: Reader, tree: Tree, position: Position) -> Node:
    return reader.read(Tree(tree.java.replacement()), position)


def _with(reader: Reader, tree: Tree, position: Position) -> Node:
    """An expression that uses others, defined behind it, several times."""
    body, *definitions = tree.children
    for definition in definitions:
        reader.share(definition.java.id().id(), definition.children[0])
    return reader.read(body, position)


def _reference(reader: Reader, tree: Tree, position: Position) -> Node:
    return reader.shared(tree.java.id().id(), position)


def _object(reader: Reader, tree: Tree, position: Position) -> Node:
    nodes = tuple(reader.read(child, position.of_first) for child in tree.children[1::2])
    return Call("object", nodes, kind_named(str(tree.java.dataType().json())))


def _cast(reader: Reader, tree: Tree, position: Position) -> Node:
    if not tree.is_usual():
        raise tree.refused()
    node = reader.read(tree.children[0], position)
    if node.kind == tree.kind:
        return node
    if pa.types.is_null(node.kind) or (isinstance(node, Constant) and node.value is None):
        return Constant(None, tree.kind)
    if tree.kind == TIME and isinstance(node, Constant) and _WHOLE_DATE.match(str(node.value)):
        return Constant(_evaluated(tree), TIME)
    function = cast(node.kind, tree.kind)
    if function is None:
        raise NotHere(f"workers have no cast from {tree.children[0].type_name} to {tree.type_name}")
    call = Call(function, (node,), tree.kind)
    if node.kind == DATE and tree.kind == TIME and not is_near(node):
        return reader.failing(tree, call, "failed", position)
    return call


def _evaluated(tree: Tree) -> object:
    """By Spark. Raises NotHere if it fails, or has a part that Spark evaluates only in a whole plan."""
    try:
        return tree.java.eval(None)
    except (Py4JJavaError, PySparkException):
        raise NotHere(f"`{tree.java.sql()}` is no constant that can be known before") from None


STRUCTURE: dict[str, Rule] = {
    "AttributeReference": _field,
    "GetStructField": _inner_field,
    "Literal": _literal,
    "TypedNullLiteral": _null,
    **dict.fromkeys(("Nvl", "Nvl2", "NullIf", "Between", "ZeroIfNull", "NullIfZero"), _inside),
    **dict.fromkeys(("Left", "Right", "ParseToTimestamp", "ParseToDate"), _replaced),
    "With": _with,
    "CommonExpressionRef": _reference,
    "CreateNamedStruct": _object,
    "Cast": _cast,
}
