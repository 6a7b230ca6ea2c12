"""Lists."""

import pyarrow as pa

from enrich.stage.compute.kinds import BOOLEAN, is_comparable, one_of
from enrich.stage.compute.nodes import Call, Constant, Node
from enrich.stage.compute.rules.forms import children, known
from enrich.stage.compute.rules.position import Position
from enrich.stage.compute.rules.reader import Reader, Rule
from enrich.stage.compute.tree import NotHere, Tree

_list, _int = pa.types.is_list, one_of(pa.int32())


def _size(reader: Reader, tree: Tree, position: Position) -> Node:
    (column,) = children(reader, tree, position.of_first, _list)
    return Call("size", (column,), pa.int32(), (-1 if tree.java.legacySizeOfNull() else None,))


def _by_index(reader: Reader, tree: Tree, position: Position) -> Node:
    """`tags[0]`."""
    column, place = _list_and_place(reader, tree, position)
    # From the end are no items here, other than in `element_at`.
    return Constant(None, column.kind.value_type) if place is None or place < 0 else _item(column, place)


def _element(reader: Reader, tree: Tree, position: Position) -> Node:
    """`element_at(tags, 1)`."""
    column, place = _list_and_place(reader, tree, position)
    if place == 0:
        raise NotHere("`element_at` fails for 0")
    if place is None:
        return Constant(None, column.kind.value_type)
    return _item(column, place - 1 if place > 0 else place)


def _list_and_place(reader: Reader, tree: Tree, position: Position) -> tuple[Node, int | None]:
    column, place = children(reader, tree, position, _list, _int)
    return column, known(tree, place, "place")


def _item(column: Node, place: int) -> Node:
    return Call("item", (column,), column.kind.value_type, (place,))


def _contains(reader: Reader, tree: Tree, position: Position) -> Node:
    column, wanted = children(reader, tree, position, _list, is_comparable)
    if column.kind.value_type != wanted.kind:
        raise tree.refused()
    return Call("list_contains", (column, wanted), BOOLEAN)


LIST_RULES: dict[str, Rule] = {
    "Size": _size,
    "GetArrayItem": _by_index,
    "ElementAt": _element,
    "ArrayContains": _contains,
}
