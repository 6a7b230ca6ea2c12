"""Keys that are designed but not built yet: they are refused by name, so that nobody relies on them.

To build one, remove its line here and add its keys to a section's model.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from enrich.config.messages.problems import Finding, Path

NOT_BUILT: Mapping[str, str] = {}
"""Paths, in which `*` is any name or number (`stages.*.lookups.*.key`), with the message for users."""


def not_built(data: Any, known: Mapping[str, str] = NOT_BUILT) -> Iterator[Finding]:
    for pattern, message in known.items():
        for path in _matching(data, pattern.split("."), ()):
            yield Finding(path, message, key=True)


def _matching(data: Any, steps: list[str], path: Path) -> Iterator[Path]:
    if not steps:
        yield path
    elif isinstance(data, dict):
        for key in data if steps[0] == "*" else (steps[0],):
            if key in data:
                yield from _matching(data[key], steps[1:], (*path, key))
    elif isinstance(data, list) and steps[0] == "*":
        for index, item in enumerate(data):
            yield from _matching(item, steps[1:], (*path, index))
