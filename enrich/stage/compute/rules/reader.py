"""Walks an expression, with one rule for each class."""

from collections.abc import Callable, Mapping

from enrich.stage.compute.compiled import Compiled
from enrich.stage.compute.kinds import DATE, TIME, is_simple
from enrich.stage.compute.nodes import Call, Constant, Field, Node
from enrich.stage.compute.tree import NotHere, Tree

Rule = Callable[["Reader", Tree, bool], Node]
"""Translates one expression. The last argument is `may_fail`, see `Reader.read`. Raises NotHere."""


class Reader:
    """Translates one expression over fields, which are known by Spark's numbers for them."""

    def __init__(self, rules: Mapping[str, Rule], fields: Mapping[int, Field]) -> None:
        self._rules = rules
        self._fields = fields
        self._shared: dict[int, Tree] = {}

    def read(self, tree: Tree, *, may_fail: bool = False) -> Node:
        """`may_fail`: where the whole expression is null if this is null. Only there a function may fail: elsewhere the
        failure, which makes the whole null, would look like a null value. Raises NotHere."""
        rule = self._rules.get(tree.name)
        if rule is None:
            raise tree.refused()
        return _folded(rule(self, tree, may_fail))

    def field(self, tree: Tree) -> Field:
        found = self._fields.get(tree.java.exprId().id())
        if found is None:
            raise NotHere(f"`{tree.java.sql()}` is no field of the event")
        return found

    def share(self, number: int, tree: Tree) -> None:
        """Remembers what references with this number stand for."""
        self._shared[number] = tree

    def shared(self, number: int) -> Tree:
        return self._shared[number]


def _folded(node: Node) -> Node:
    """The value of a call of constants, computed once. Rules then see that it is one."""
    if not isinstance(node, Call) or not is_simple(node.kind):
        return node
    if not all(isinstance(argument, Constant) for argument in node.arguments):
        return node
    value = Compiled("", node).evaluate({}, 1)[0]
    return Constant(value.value if node.kind in (TIME, DATE) else value.as_py(), node.kind)
