"""Truth, comparisons and choices."""

import pyarrow as pa

from enrich.stage.compute.kinds import BOOLEAN, is_any, is_comparable, is_simple, one_of
from enrich.stage.compute.nodes import Call, Constant, Node
from enrich.stage.compute.rules.forms import alike, children, lenient, strict
from enrich.stage.compute.rules.position import Position
from enrich.stage.compute.rules.reader import Reader, Rule
from enrich.stage.compute.tree import NotHere, Tree

_MANY_VALUES = 10
"""Spark looks longer lists up in a hash table, where floating-point numbers are equal by other rules."""
_boolean = one_of(BOOLEAN)


def _compared(function: str) -> Rule:
    return alike(strict(function, is_comparable, kind=BOOLEAN))


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


def _choice(reader: Reader, tree: Tree, position: Position) -> Node:
    nodes = children(reader, tree, position.of_first, is_simple)
    conditions = nodes[0 : len(nodes) - 1 : 2]
    values = [*nodes[1::2], *nodes[len(nodes) - len(nodes) % 2 :]]
    kind = values[0].kind
    is_known = all(each.kind == BOOLEAN for each in conditions) and is_simple(kind)
    if not is_known or any(each.kind != kind for each in values):
        raise tree.refused()
    return Call("choose", nodes, kind)


LOGIC_RULES: dict[str, Rule] = {
    "And": lenient("and", _boolean),
    "Or": lenient("or", _boolean),
    "Not": strict("not", _boolean),
    "IsNull": lenient("is_null", is_any, kind=BOOLEAN),
    "IsNotNull": lenient("is_not_null", is_any, kind=BOOLEAN),
    "Coalesce": alike(lenient("coalesce", is_simple)),
    "If": _choice,
    "CaseWhen": _choice,
    "EqualTo": _compared("equal"),
    "EqualNullSafe": alike(lenient("same", is_comparable, kind=BOOLEAN)),
    "LessThan": _compared("less"),
    "LessThanOrEqual": _compared("less_equal"),
    "GreaterThan": _compared("greater"),
    "GreaterThanOrEqual": _compared("greater_equal"),
    "In": _in,
}
