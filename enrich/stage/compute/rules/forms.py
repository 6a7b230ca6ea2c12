"""Rules that many functions share."""

from typing import Any

import pyarrow as pa

from enrich.stage.compute.kinds import Group
from enrich.stage.compute.nodes import Call, Constant, Node
from enrich.stage.compute.rules.position import Position
from enrich.stage.compute.rules.reader import Reader, Rule
from enrich.stage.compute.tree import NotHere, Tree


def children(reader: Reader, tree: Tree, position: Position, *groups: Group) -> tuple[Node, ...]:
    """The children, whose types must be of the groups; the last group is that of all further ones. `position`: of the
    first one, if the function is not null whenever an argument is."""
    first, *others = tree.children
    nodes = (reader.read(first, position), *(reader.read(other, position.of_others) for other in others))
    wanted = (*groups, *groups[-1:] * len(nodes))
    if not all(group(node.kind) for group, node in zip(wanted, nodes, strict=False)):
        raise tree.refused()
    return nodes


def strict(function: str, *groups: Group, kind: pa.DataType | None = None, count: int | None = None) -> Rule:
    """A function that is null if one of its arguments is. `kind`: of its answers, if not that of its first argument."""

    def rule(reader: Reader, tree: Tree, position: Position) -> Node:
        if count is not None and len(tree.children) != count:
            raise tree.refused()
        nodes = children(reader, tree, position, *groups)
        return Call(function, nodes, kind or nodes[0].kind)

    return rule


def lenient(function: str, *groups: Group, kind: pa.DataType | None = None) -> Rule:
    """A function that may have a value although one of its arguments is null, and always looks at the first."""

    def rule(reader: Reader, tree: Tree, position: Position) -> Node:
        nodes = children(reader, tree, position.of_first, *groups)
        return Call(function, nodes, kind or nodes[0].kind)

    return rule


def replaceable(function: str, *groups: Group, kind: pa.DataType | None = None) -> Rule:
    """The same for a function that Spark's optimizer may replace by a constant, so that it looks at nothing."""

    def rule(reader: Reader, tree: Tree, _: Position) -> Node:
        nodes = children(reader, tree, Position.SOMETIMES, *groups)
        return Call(function, nodes, kind or nodes[0].kind)

    return rule


def alike(rule: Rule) -> Rule:
    """The rule, for arguments of one type."""

    def checked(reader: Reader, tree: Tree, position: Position) -> Node:
        node = rule(reader, tree, position)
        if isinstance(node, Call) and len({argument.kind for argument in node.arguments}) > 1:
            raise tree.refused()
        return node

    return checked


def known(tree: Tree, node: Node, what: str) -> Any:
    """The value of a constant. Raises NotHere for anything else."""
    if not isinstance(node, Constant):
        raise NotHere(f"the {what} of `{tree.java.prettyName()}` must be a constant")
    return node.value
