"""Walks an expression, with one rule for each class."""

from collections.abc import Callable, Mapping

from enrich.stage.compute.compiled import Compiled
from enrich.stage.compute.kinds import BOOLEAN, DATE, TIME, is_simple
from enrich.stage.compute.nodes import Call, Constant, Field, Node
from enrich.stage.compute.rules.position import Position
from enrich.stage.compute.tree import NotHere, Tree

Rule = Callable[["Reader", Tree, Position], Node]
"""Translates one expression. Raises NotHere."""

_CALLED = {"GetTimestamp": "to_timestamp"}
"""Where Spark's own name is none that users know."""


class Reader:
    """Translates one expression over fields, which are known by Spark's numbers for them."""

    def __init__(self, rules: Mapping[str, Rule], fields: Mapping[int, Field]) -> None:
        self._rules = rules
        self._fields = fields
        self._shared: dict[int, Tree | Node] = {}
        self._failures: list[Node] = []

    def whole(self, tree: Tree) -> Node:
        """An expression from its root. Raises NotHere."""
        root = self.read(tree, Position.NULLING)
        return Call("unless", (root, *self._failures), root.kind) if self._failures else root

    def read(self, tree: Tree, position: Position) -> Node:
        """A part of it. Raises NotHere."""
        rule = self._rules.get(tree.name)
        if rule is None:
            raise tree.refused()
        return _folded(rule(self, tree, position))

    @property
    def failures(self) -> int:
        """How many functions that can fail were found so far, of those whose failures have to be remembered."""
        return len(self._failures)

    def failing(self, tree: Tree, call: Call, failed: str, position: Position) -> Call:
        """A call that fails for some values, for which it says null. `failed`: the function of the same arguments that
        says for which. Raises NotHere where a failure could not be told."""
        if position is Position.SOMETIMES:
            name = _CALLED.get(tree.name) or tree.java.prettyName()
            raise NotHere(f"`{name}` can fail, and stands where it is evaluated for some events only")
        if position is Position.ALWAYS:
            self._failures.append(Call(failed, (call, *call.arguments), BOOLEAN, call.options))
        return call

    def field(self, tree: Tree) -> Field:
        found = self._fields.get(tree.java.exprId().id())
        if found is None:
            raise NotHere(f"`{tree.java.sql()}` is no field of the event")
        return found

    def share(self, number: int, tree: Tree) -> None:
        """Remembers what references with this number stand for."""
        self._shared[number] = tree

    def shared(self, number: int, position: Position) -> Node:
        """What a reference stands for. Spark computes it once, so the first reference decides whether it may fail."""
        found = self._shared[number]
        if isinstance(found, Tree):
            found = self._shared[number] = self.read(found, position)
        return found


def _folded(node: Node) -> Node:
    """The value of a call of constants, computed once. Rules then see that it is one."""
    if not isinstance(node, Call) or not is_simple(node.kind):
        return node
    if not all(isinstance(argument, Constant) for argument in node.arguments):
        return node
    value = Compiled("", node).evaluate({}, 1)[0]
    return Constant(value.value if node.kind in (TIME, DATE) else value.as_py(), node.kind)
