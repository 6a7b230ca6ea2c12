"""Arithmetic."""

import pyarrow as pa

from enrich.stage.compute.kinds import DOUBLE, LONG, Group, is_number, one_of
from enrich.stage.compute.nodes import Call, Node
from enrich.stage.compute.rules.forms import alike, children, strict
from enrich.stage.compute.rules.position import Position
from enrich.stage.compute.rules.reader import Reader, Rule
from enrich.stage.compute.tree import Tree


def _any_number(kind: pa.DataType) -> bool:
    return is_number(kind) or bool(pa.types.is_decimal(kind))


def _negatable(kind: pa.DataType) -> bool:
    # Spark rounds negated decimals to 34 digits.
    return is_number(kind) or bool(pa.types.is_decimal(kind) and kind.precision <= 34)


def _usual(rule: Rule) -> Rule:
    """The rule, but not for `try_add` and the like."""

    def checked(reader: Reader, tree: Tree, position: Position) -> Node:
        if not tree.is_usual():
            raise tree.refused()
        return rule(reader, tree, position)

    return checked


def _divided(function: str, group: Group) -> Rule:
    """Spark looks at the divisor first, and no further if that is null or zero."""
    rule = alike(strict(function, group))
    return lambda reader, tree, position: rule(reader, tree, position.of_others)


def _exact(function: str) -> Rule:
    """Also of decimals, as long as Spark's type for the result has all of its digits."""

    def rule(reader: Reader, tree: Tree, position: Position) -> Node:
        nodes = children(reader, tree, position, _any_number)
        left, right = (node.kind for node in nodes)
        kind = tree.kind
        if pa.types.is_decimal(left) and pa.types.is_decimal(right):
            if _of_decimals(function, left, right) != (kind.precision, kind.scale):
                raise tree.refused()
        elif left != right:
            raise tree.refused()
        return Call(function, nodes, kind)

    return rule


def _of_decimals(function: str, left: pa.Decimal128Type, right: pa.Decimal128Type) -> tuple[int, int]:
    """Precision and scale of all digits."""
    if function == "multiply":
        return left.precision + right.precision + 1, left.scale + right.scale
    scale = max(left.scale, right.scale)
    return max(left.precision - left.scale, right.precision - right.scale) + scale + 1, scale


NUMBER_RULES: dict[str, Rule] = {
    "Add": _usual(_exact("add")),
    "Subtract": _usual(_exact("subtract")),
    "Multiply": _usual(_exact("multiply")),
    "Divide": _usual(_divided("divide", one_of(DOUBLE))),
    "IntegralDivide": _usual(_divided("quotient", one_of(LONG))),
    "Remainder": _usual(_divided("remainder", is_number)),
    "UnaryMinus": strict("negate", _negatable),
    "Abs": strict("absolute", _negatable),
}
