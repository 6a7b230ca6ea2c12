"""Truth, comparisons and choices."""

import pyarrow as pa

from enrich.stage.compute.kinds import BOOLEAN, is_any, is_comparable, is_simple, one_of
from enrich.stage.compute.nodes import Call, Constant, Node
from enrich.stage.compute.rules.forms import alike, children, lenient, replaceable, strict
from enrich.stage.compute.rules.position import Position
from enrich.stage.compute.rules.reader import Reader, Rule
from enrich.stage.compute.tree import NotHere, Tree

_MANY_VALUES = 10
"""Spark looks longer lists up in a hash table. That this has the same answers for all floating-point numbers was not
shown; for 0.0, -0.0 and NaN it has."""
_boolean = one_of(BOOLEAN)


def _compared(function: str) -> Rule:
    return alike(strict(function, is_comparable, kind=BOOLEAN))


_NEVER_NULL = frozenset({"is_null", "is_not_null", "same", "coalesce", "choose", "concat_with", "size", "object"})
"""Functions that have a value for nulls. Of such the optimizer makes constants: `x IS NULL OR x IS NOT NULL`."""


def _joined(function: str) -> Rule:
    """AND and OR. The left side is looked at for all events, unless the right side is a constant for the optimizer."""

    def rule(reader: Reader, tree: Tree, position: Position) -> Node:
        left, right = tree.children
        failures = reader.failures
        nodes = (reader.read(left, position.of_first), reader.read(right, Position.SOMETIMES))
        if reader.failures > failures and _may_be_constant(nodes[1]):
            raise NotHere(f"a part of `{tree.java.sql()}` can fail, and Spark may not look at it")
        return Call(function, nodes, BOOLEAN) if all(map(_boolean, (node.kind for node in nodes))) else _refuse(tree)

    return rule


def _may_be_constant(node: Node) -> bool:
    if isinstance(node, Call):
        return node.function in _NEVER_NULL or any(map(_may_be_constant, _columns(node)))
    return isinstance(node, Constant)


def _columns(node: Call) -> list[Node]:
    """The arguments that are no constants; all if they all are."""
    return [each for each in node.arguments if not isinstance(each, Constant)] or list(node.arguments)


def _refuse(tree: Tree) -> Node:
    raise tree.refused()


def _in(reader: Reader, tree: Tree, position: Position) -> Node:
    nodes = children(reader, tree, position.of_first, is_comparable)
    value, *others = nodes
    if any(other.kind != value.kind for other in others):
        raise tree.refused()
    is_floating = pa.types.is_floating(value.kind)
    if is_floating and len(others) > _MANY_VALUES:
        raise NotHere(f"workers look up floating-point numbers in no list of more than {_MANY_VALUES}")
    constants = [other.value for other in others if isinstance(other, Constant)]
    if is_floating or len(constants) < len(others):
        return Call("in", nodes, BOOLEAN)
    some = [constant for constant in constants if constant is not None]
    return Call("one_of", (value,), BOOLEAN, (*some, len(some) < len(constants)))


def _choice(reader: Reader, tree: Tree, _: Position) -> Node:
    # The optimizer drops conditions of which both ways lead to the same.
    nodes = children(reader, tree, Position.SOMETIMES, is_simple)
    conditions = nodes[0 : len(nodes) - 1 : 2]
    values = [*nodes[1::2], *nodes[len(nodes) - len(nodes) % 2 :]]
    kind = values[0].kind
    is_known = all(each.kind == BOOLEAN for each in conditions) and is_simple(kind)
    if not is_known or any(each.kind != kind for each in values):
        raise tree.refused()
    return Call("choose", nodes, kind)


LOGIC_RULES: dict[str, Rule] = {
    "And": _joined("and"),
    "Or": _joined("or"),
    "Not": strict("not", _boolean),
    "IsNull": replaceable("is_null", is_any, kind=BOOLEAN),
    "IsNotNull": replaceable("is_not_null", is_any, kind=BOOLEAN),
    "Coalesce": alike(lenient("coalesce", is_simple)),
    "If": _choice,
    "CaseWhen": _choice,
    "EqualTo": _compared("equal"),
    "EqualNullSafe": alike(replaceable("same", is_comparable, kind=BOOLEAN)),
    "LessThan": _compared("less"),
    "LessThanOrEqual": _compared("less_equal"),
    "GreaterThan": _compared("greater"),
    "GreaterThanOrEqual": _compared("greater_equal"),
    "In": _in,
}
