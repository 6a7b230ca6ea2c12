"""A configuration file as plain data with `${...}` replaced, and the text position of every key and value."""

import re
from collections.abc import Mapping
from typing import Any

from enrich.config.file import yaml_tree
from enrich.config.file.environment import Unset, substitute
from enrich.config.file.yaml_tree import Node, NotYaml, Scalar, Sequence
from enrich.config.messages.problems import Finding, Path, Problem, TextPosition, path_text
from enrich.config.messages.words import Wrong


class Document:
    """Raises NotYaml if the text is not YAML. Errors in single values are added to `findings`."""

    def __init__(self, text: str, environ: Mapping[str, str], file: str) -> None:
        self.file = file
        self.findings: list[Finding] = []
        self.unset: set[Path] = set()
        """Values with a variable that is not set."""
        self._lines = re.split(yaml_tree.LINE_BREAK, text)
        self._environ = environ
        self._keys: dict[Path, TextPosition] = {}
        self._values: dict[Path, Scalar] = {}
        self._count = 0
        root = yaml_tree.read_tree(text)
        self.data: Any = None if root is None else self._data(root, ())

    def problem(self, finding: Finding) -> Problem:
        """The finding with its position: that of the key or value, or of the nearest enclosing section."""
        position = self._position(finding)
        return Problem(self.file, position.line, position.column, path_text(finding.path), finding.message)

    def _position(self, finding: Finding) -> TextPosition:
        path = finding.path
        if finding.position is not None:
            return finding.position
        if path in self._values and not finding.key:
            return self._inside(self._values[path], finding.offset)
        while path and path not in self._keys:
            path = path[:-1]
        return self._keys.get(path, TextPosition(1))

    def _inside(self, scalar: Scalar, offset: int | None) -> TextPosition:
        """The position of the character itself, if the value is in the file verbatim: on one line, without escapes."""
        if offset is not None:
            line = self._lines[scalar.position.line - 1]
            start = scalar.position.column or 1
            for quote in (0, 1):
                if line[start - 1 + quote :].startswith(scalar.text):
                    return TextPosition(scalar.position.line, start + quote + offset)
        return scalar.position

    def _data(self, node: Node, path: Path) -> Any:
        self._tick(node, len(path))
        match node:
            case Scalar():
                return self._scalar(node, path)
            case Sequence():
                for index, item in enumerate(node.items):
                    self._keys[(*path, index)] = item.position
                return [self._data(item, (*path, index)) for index, item in enumerate(node.items)]
        return self._mapping(node, path)

    def _scalar(self, node: Scalar, path: Path) -> Any:
        self._values[path] = node
        try:
            text = substitute(node.text, self._environ)
        except Wrong as wrong:
            self.findings.append(Finding(path, str(wrong), offset=wrong.offset))
            if isinstance(wrong, Unset):
                self.unset.add(path)
            return None
        return node.value() if text is node.text else text

    def _mapping(self, node: yaml_tree.Mapping, path: Path) -> dict[str, Any]:
        data: dict[str, Any] = {}
        merged: list[Node] = []
        for key, value in node.pairs:
            if not isinstance(key, Scalar):
                self.findings.append(Finding(path, "a key must be plain text", position=key.position))
            elif _is_merge(key):
                merged.append(value)
            elif key.text in data:
                here = (*path, key.text)
                twice = f"duplicate key: on line {self._keys[here].line} and on line {key.position.line}"
                self.findings.append(Finding(here, twice, position=key.position))
            else:
                self._keys[(*path, key.text)] = key.position
                data[key.text] = self._data(value, (*path, key.text))
        for source in merged:
            self._merge(source, path, data, depth=1)
        return data

    def _merge(self, source: Node, path: Path, data: dict[str, Any], depth: int) -> None:
        """`<<: *defaults`, or a list of them: adds keys that are not set yet, so the first source wins."""
        self._tick(source, depth)
        if isinstance(source, Scalar):
            self.findings.append(
                Finding(path, "expected a mapping, or a list of them, to merge", position=source.position)
            )
        elif isinstance(source, Sequence):
            for item in source.items:
                self._merge(item, path, data, depth + 1)
        else:
            for key, value in source.pairs:
                self._tick(key, depth)
                if isinstance(key, Scalar) and not _is_merge(key) and key.text not in data:
                    self._keys[(*path, key.text)] = key.position
                    data[key.text] = self._data(value, (*path, key.text))
            for key, value in source.pairs:
                if isinstance(key, Scalar) and _is_merge(key):
                    self._merge(value, path, data, depth + 1)

    def _tick(self, node: Node, depth: int) -> None:
        # Aliases make a small tree large: nodes are counted after expanding them.
        self._count += 1
        if self._count > yaml_tree.MOST_NODES or depth > yaml_tree.DEEPEST:
            raise NotYaml("aliases multiply the file beyond any sensible size", node.position)


def _is_merge(key: Scalar) -> bool:
    return key.plain and key.text == "<<"
