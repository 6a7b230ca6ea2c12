"""Functions of text. Patterns and positions must be constants."""

import re

import pyarrow as pa

from enrich.stage.compute.kinds import BOOLEAN, TEXT, one_of
from enrich.stage.compute.nodes import Call, Constant, Node
from enrich.stage.compute.rules.forms import children, known, lenient, strict
from enrich.stage.compute.rules.position import Position
from enrich.stage.compute.rules.reader import Reader, Rule
from enrich.stage.compute.tree import NotHere, Tree

_text = one_of(TEXT)
_ESCAPE = "\\"


def _substring(reader: Reader, tree: Tree, position: Position) -> Node:
    text, *places = children(reader, tree, position, _text, one_of(pa.int32()))
    position, length = (known(tree, place, "position and length") for place in places)
    if position is None or length is None:
        return Constant(None, TEXT)
    return Call("substring", (text,), TEXT, (position, length))


def _matched(function: str) -> Rule:
    def rule(reader: Reader, tree: Tree, position: Position) -> Node:
        text, part = children(reader, tree, position, _text)
        pattern = known(tree, part, "part that is looked for")
        return Constant(None, BOOLEAN) if pattern is None else Call(function, (text,), BOOLEAN, (pattern,))

    return rule


def _like(reader: Reader, tree: Tree, position: Position) -> Node:
    text, pattern_node = children(reader, tree, position, _text)
    pattern = known(tree, pattern_node, "pattern")
    if pattern is None:
        return Constant(None, BOOLEAN)
    if str(tree.java.escapeChar()) != _ESCAPE:
        raise NotHere("workers know no ESCAPE of one's own")
    parts = _parts(pattern)
    plain = [part for part in parts if part not in _WILD]
    joined = "".join(plain).replace(_ESCAPE, "")
    stars = [index for index, part in enumerate(parts) if part == "%"]
    if len(parts) - len(plain) == len(stars):
        if not stars:
            return Call("equal", (text, Constant(joined, TEXT)), BOOLEAN)
        if stars == [len(parts) - 1]:
            return Call("starts_with", (text,), BOOLEAN, (joined,))
        if stars == [0]:
            return Call("ends_with", (text,), BOOLEAN, (joined,))
        if stars == [0, len(parts) - 1]:
            return Call("contains", (text,), BOOLEAN, (joined,))
    return Call("like", (text,), BOOLEAN, (_regex(parts),))


_WILD = {"%": ".*", "_": "."}


def _parts(pattern: str) -> list[str]:
    """The characters; escaped ones with a backslash before them. Raises NotHere for patterns with which Spark fails."""
    parts = re.findall(r"\\[%_\\]|[^\\]", pattern, re.DOTALL)
    if sum(map(len, parts)) < len(pattern):
        raise NotHere(f"the pattern `{pattern}` escapes what needs no escape")
    return parts


def _regex(parts: list[str]) -> str:
    return r"(?s)\A" + "".join(_WILD.get(part) or re.escape(part[-1]) for part in parts) + r"\z"


def _replace(reader: Reader, tree: Tree, position: Position) -> Node:
    text, *others = children(reader, tree, position, _text)
    pattern, replacement = (known(tree, other, "part and its replacement") for other in others)
    if pattern is None or replacement is None:
        return Constant(None, TEXT)
    return Call("replace", (text,), TEXT, (pattern, replacement)) if pattern else text


TEXT_RULES: dict[str, Rule] = {
    "Lower": strict("lower", _text),
    "Upper": strict("upper", _text),
    # With a second argument they take other characters away.
    "StringTrim": strict("trim", _text, count=1),
    "StringTrimLeft": strict("trim_left", _text, count=1),
    "StringTrimRight": strict("trim_right", _text, count=1),
    "Concat": strict("concat", _text),
    "ConcatWs": lenient("concat_with", _text),
    "Length": strict("length", _text, kind=pa.int32()),
    "Substring": _substring,
    "StartsWith": _matched("starts_with"),
    "EndsWith": _matched("ends_with"),
    "Contains": _matched("contains"),
    "Like": _like,
    "StringReplace": _replace,
}
