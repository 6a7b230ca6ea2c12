"""Which of Spark's expressions become which calls, by class: the table of what workers evaluate.

What is here has passed `tests/property/stage/test_compute.py`: its answers are Spark's for odd values too. What cannot
be made equal is left out, or restricted here to the types and constants for which it is.
"""

from collections.abc import Callable, Mapping

import pyarrow as pa

from enrich.stage.compute.casts import cast_function
from enrich.stage.compute.kinds import BOOLEAN, TEXT, Group, is_comparable, is_simple, one_of
from enrich.stage.compute.nodes import Call, Constant, Field, Node
from enrich.stage.compute.tree import NotHere, Tree

Rule = Callable[["Reader", Tree, bool], Node]
_MANY_VALUES = 10
"""Spark looks longer lists up in a hash table, where floating-point numbers are equal by other rules."""


class Reader:
    """Translates one expression over fields, which are known by Spark's numbers for them."""

    def __init__(self, fields: Mapping[int, Field]) -> None:
        self._fields = fields
        self._shared: dict[int, Tree] = {}

    def read(self, tree: Tree, *, may_fail: bool = False) -> Node:
        """`may_fail`: where the whole expression is null if this is null. Only there a function may fail: elsewhere the
        failure, which makes the whole null, would look like a null value. Raises NotHere."""
        rule = RULES.get(tree.name)
        if rule is None:
            raise tree.refused()
        return rule(self, tree, may_fail)

    def field(self, tree: Tree) -> Field:
        found = self._fields.get(tree.java.exprId().id())
        if found is None:
            raise NotHere(f"`{tree.java.sql()}` is no field of the event")
        return found

    def share(self, number: int, tree: Tree) -> None:
        self._shared[number] = tree

    def shared(self, number: int) -> Tree:
        return self._shared[number]


def _field(reader: Reader, tree: Tree, _: bool) -> Node:
    return reader.field(tree)


def _inner_field(reader: Reader, tree: Tree, _: bool) -> Node:
    outer = reader.read(tree.children[0])
    if not isinstance(outer, Field):
        raise NotHere(f"workers read fields only of the event's objects, not of `{tree.children[0].java.sql()}`")
    inner = outer.kind.field(tree.java.ordinal())
    return Field((*outer.path, inner.name), inner.type)


def _literal(_: Reader, tree: Tree, __: bool) -> Node:
    return tree.constant()


def _inside(reader: Reader, tree: Tree, may_fail: bool) -> Node:
    """A function that Spark replaces by others: its only child is what replaces it."""
    return reader.read(tree.children[0], may_fail=may_fail)


def _replaced(reader: Reader, tree: Tree, may_fail: bool) -> Node:
    return reader.read(Tree(tree.java.replacement()), may_fail=may_fail)


def _with(reader: Reader, tree: Tree, may_fail: bool) -> Node:
    """An expression that uses others, defined behind it, several times."""
    body, *definitions = tree.children
    for definition in definitions:
        reader.share(definition.java.id().id(), definition.children[0])
    return reader.read(body, may_fail=may_fail)


def _reference(reader: Reader, tree: Tree, may_fail: bool) -> Node:
    return reader.read(reader.shared(tree.java.id().id()), may_fail=may_fail)


def _null(_: Reader, tree: Tree, __: bool) -> Node:
    return Constant(None, tree.kind)


def _read_all(reader: Reader, tree: Tree, groups: tuple[Group, ...], may_fail: bool) -> tuple[Node, ...]:
    """The children, whose types must be of the groups; the last group is that of all further children."""
    nodes = tuple(reader.read(child, may_fail=may_fail) for child in tree.children)
    wanted = (*groups, *groups[-1:] * len(nodes))
    if not all(group(node.kind) for group, node in zip(wanted, nodes, strict=False)):
        raise tree.refused()
    return nodes


def _strict(function: str, *groups: Group, kind: pa.DataType | None = None) -> Rule:
    """A function that is null if one of its arguments is. `kind`: of its answers, if not that of its first argument."""

    def rule(reader: Reader, tree: Tree, may_fail: bool) -> Node:
        nodes = _read_all(reader, tree, groups, may_fail)
        return Call(function, nodes, kind or nodes[0].kind)

    return rule


def _lenient(function: str, *groups: Group, kind: pa.DataType | None = None) -> Rule:
    """A function that may have a value although one of its arguments is null."""

    def rule(reader: Reader, tree: Tree, _: bool) -> Node:
        nodes = _read_all(reader, tree, groups, may_fail=False)
        return Call(function, nodes, kind or nodes[0].kind)

    return rule


def _compared(function: str, of: Callable[..., Rule] = _strict) -> Rule:
    any_two = of(function, is_comparable, kind=BOOLEAN)

    def rule(reader: Reader, tree: Tree, may_fail: bool) -> Node:
        call = any_two(reader, tree, may_fail)
        if isinstance(call, Call) and call.arguments[0].kind != call.arguments[1].kind:
            raise tree.refused()
        return call

    return rule


def _in(reader: Reader, tree: Tree, _: bool) -> Node:
    nodes = _read_all(reader, tree, (is_comparable,), may_fail=False)
    value, *others = nodes
    if any(other.kind != value.kind for other in others):
        raise tree.refused()
    is_floating = pa.types.is_floating(value.kind)
    if is_floating and len(others) > _MANY_VALUES:
        raise NotHere(f"workers look up floating-point numbers in no list of more than {_MANY_VALUES}")
    constants = [other.value for other in others if isinstance(other, Constant)]
    if is_floating or len(constants) < len(others):
        return Call("in", nodes, BOOLEAN)
    known = [constant for constant in constants if constant is not None]
    return Call("one_of", (value,), BOOLEAN, (*known, len(known) < len(constants)))


def _choice(reader: Reader, tree: Tree, _: bool) -> Node:
    nodes = tuple(reader.read(child) for child in tree.children)
    conditions = nodes[0 : len(nodes) - 1 : 2]
    values = [*nodes[1::2], *nodes[len(nodes) - len(nodes) % 2 :]]
    kind = values[0].kind
    if any(each.kind != BOOLEAN for each in conditions) or any(each.kind != kind for each in values):
        raise tree.refused()
    return Call("choose", nodes, kind) if is_simple(kind) else _refuse(tree)


def _coalesce(reader: Reader, tree: Tree, _: bool) -> Node:
    nodes = _read_all(reader, tree, (is_simple,), may_fail=False)
    return Call("coalesce", nodes, nodes[0].kind) if len({node.kind for node in nodes}) == 1 else _refuse(tree)


def _cast(reader: Reader, tree: Tree, may_fail: bool) -> Node:
    node = reader.read(tree.children[0], may_fail=may_fail)
    if node.kind == tree.kind:
        return node
    if isinstance(node, Constant) and node.value is None:
        return Constant(None, tree.kind)
    function = cast_function(node.kind, tree.kind)
    if function is None:
        raise NotHere(f"workers have no cast from {tree.children[0].type_name} to {tree.type_name}")
    return Call(function, (node,), tree.kind)


def _trim(function: str) -> Rule:
    # With a second argument: characters of one's own, which may be none.
    return _strict_with(1, function)


def _strict_with(count: int, function: str) -> Rule:
    rule = _strict(function, one_of(TEXT))

    def checked(reader: Reader, tree: Tree, may_fail: bool) -> Node:
        return rule(reader, tree, may_fail) if len(tree.children) == count else _refuse(tree)

    return checked


def _refuse(tree: Tree) -> Node:
    raise tree.refused()


_text = one_of(TEXT)
_boolean = one_of(BOOLEAN)

RULES: Mapping[str, Rule] = {
    "AttributeReference": _field,
    "GetStructField": _inner_field,
    "Literal": _literal,
    "TypedNullLiteral": _null,
    **dict.fromkeys(("Nvl", "Nvl2", "NullIf", "Between", "ZeroIfNull"), _inside),
    **dict.fromkeys(("Left", "Right"), _replaced),
    "With": _with,
    "CommonExpressionRef": _reference,
    "And": _lenient("and", _boolean),
    "Or": _lenient("or", _boolean),
    "Not": _strict("not", _boolean),
    "IsNull": _lenient("is_null", is_simple, kind=BOOLEAN),
    "IsNotNull": _lenient("is_not_null", is_simple, kind=BOOLEAN),
    "Coalesce": _coalesce,
    "If": _choice,
    "CaseWhen": _choice,
    "EqualTo": _compared("equal"),
    "EqualNullSafe": _compared("same", _lenient),
    "LessThan": _compared("less"),
    "LessThanOrEqual": _compared("less_equal"),
    "GreaterThan": _compared("greater"),
    "GreaterThanOrEqual": _compared("greater_equal"),
    "In": _in,
    "Cast": _cast,
    "Lower": _strict("lower", _text),
    "Upper": _strict("upper", _text),
    "StringTrim": _trim("trim"),
    "StringTrimLeft": _trim("trim_left"),
    "StringTrimRight": _trim("trim_right"),
    "Concat": _strict("concat", _text),
    "ConcatWs": _lenient("concat_with", _text),
    "Length": _strict("length", _text, kind=pa.int32()),
}
