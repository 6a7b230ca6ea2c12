"""Parses YAML text to a tree of nodes with their positions. Builds only mappings, lists and scalars.

Built from the parser's events instead of its own composer, so that depth and size are limited while reading: the
composer recurses, and a few hundred kilobytes of brackets or aliases would take minutes or overflow the stack.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml import events as ev
from ruamel.yaml.error import MarkedYAMLError, YAMLError

from enrich.config.messages.problems import TextPosition
from enrich.config.messages.words import shortened

DEEPEST = 50
MOST_NODES = 20_000

LINE_BREAK = r"\r\n|\n|\r"
# Control characters, half surrogates, and line breaks of YAML 1.1 that editors do not count.
FORBIDDEN = re.compile("[^\t\n\r\x20-\x7e\xa0-\u2027\u202a-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")

_INTEGER = re.compile(r"[-+]?[0-9]{1,100}|0o[0-7]{1,100}|0x[0-9a-fA-F]{1,100}")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]{1,9})?")
_SPECIAL_FLOAT = re.compile(r"[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)")
_WORDS: dict[str, bool | None] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}


@dataclass(frozen=True)
class Scalar:
    position: TextPosition
    text: str
    plain: bool

    def value(self) -> Any:
        """By the core schema of YAML 1.2: `yes` is text and `012` is 12. Quoted text is text."""
        if not self.plain:
            return self.text
        if self.text in _WORDS:
            return _WORDS[self.text]
        if _INTEGER.fullmatch(self.text):
            return int(self.text, 0 if self.text[:2] in ("0o", "0x") else 10)
        if _FLOAT.fullmatch(self.text) or _SPECIAL_FLOAT.fullmatch(self.text):
            return float(self.text.replace(".inf", "inf").replace(".nan", "nan"))
        return self.text


@dataclass(frozen=True)
class Sequence:
    position: TextPosition
    items: "list[Node]" = field(default_factory=list)


@dataclass(frozen=True)
class Mapping:
    position: TextPosition
    pairs: "list[tuple[Node, Node]]" = field(default_factory=list)


Node = Scalar | Sequence | Mapping


class NotYaml(Exception):
    """The text cannot be parsed at all."""

    def __init__(self, message: str, position: TextPosition) -> None:
        super().__init__(message)
        self.message = message
        self.position = position


def read_tree(text: str) -> Node | None:
    """The root of the only document; None if there is none. Raises NotYaml."""
    forbidden = FORBIDDEN.search(text)
    if forbidden is not None:
        lines = re.split(LINE_BREAK, text[: forbidden.start()])
        raise NotYaml(
            f"the character U+{ord(forbidden[0]):04X} is refused", TextPosition(len(lines), len(lines[-1]) + 1)
        )
    try:
        return _Builder(YAML(typ="safe", pure=True).parse(text)).root()
    except MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        position = TextPosition(1) if mark is None else TextPosition(mark.line + 1, mark.column + 1)
        line = "".join(re.split(LINE_BREAK, text)[position.line - 1 : position.line])
        flow = "${" in line and ("[" in line or "{" in line.replace("${", ""))
        advice = "; inside { } or [ ] a value with ${...} needs quotes" if flow else ""
        what = " ".join(filter(None, (error.problem, error.context)))
        raise NotYaml(f"this is not YAML: {what}{advice}", position) from None
    except (YAMLError, OverflowError, ValueError) as error:
        # Escapes beyond Unicode, which the scanner passes to chr() unchecked.
        raise NotYaml(f"this is not YAML: {str(error).splitlines()[0]}", TextPosition(1)) from None


class _Builder:
    def __init__(self, events: Iterator[Any]) -> None:
        self._events = events
        self._anchors: dict[str, Node] = {}
        self._count = 0

    def root(self) -> Node | None:
        root: Node | None = None
        documents = 0
        for event in self._events:
            if isinstance(event, ev.DocumentStartEvent):
                documents += 1
                if documents > 1:
                    raise NotYaml("a second document starts here: one file holds one pipeline", _position(event))
            elif isinstance(event, ev.NodeEvent):
                root = self._node(event, 1)
        return root

    def _node(self, event: Any, depth: int) -> Node:
        position = _position(event)
        self._count += 1
        if depth > DEEPEST:
            raise NotYaml(f"nested more than {DEEPEST} deep", position)
        if self._count > MOST_NODES:
            raise NotYaml(f"more than {MOST_NODES} values", position)
        if isinstance(event, ev.AliasEvent):
            if event.anchor not in self._anchors:
                raise NotYaml(f"*{shortened(event.anchor)} refers to no complete anchor above it", position)
            return self._anchors[event.anchor]
        if event.tag is not None and str(event.tag) not in ("!", "tag:yaml.org,2002:str"):
            tag = shortened(str(event.tag))
            raise NotYaml(f"the tag {tag} is refused: values are plain text, numbers, lists and mappings", position)
        node = self._collection(event, position, depth)
        if event.anchor is not None:
            self._anchors[event.anchor] = node
        return node

    def _collection(self, event: Any, position: TextPosition, depth: int) -> Node:
        match event:
            case ev.ScalarEvent():
                if not event.value.isascii():
                    _refuse_surrogates(event.value, position)
                return Scalar(position, event.value, plain=event.implicit[0])
            case ev.SequenceStartEvent():
                return Sequence(position, list(self._children(ev.SequenceEndEvent, depth)))
        nodes = list(self._children(ev.MappingEndEvent, depth))
        return Mapping(position, list(zip(nodes[::2], nodes[1::2], strict=True)))

    def _children(self, end: type[Any], depth: int) -> Iterator[Node]:
        for event in self._events:
            if isinstance(event, end):
                return
            yield self._node(event, depth + 1)


def _position(event: Any) -> TextPosition:
    return TextPosition(event.start_mark.line + 1, event.start_mark.column + 1)


def _refuse_surrogates(text: str, position: TextPosition) -> None:
    if any("\ud800" <= character <= "\udfff" for character in text):
        raise NotYaml("half a surrogate pair is not a character", position)
