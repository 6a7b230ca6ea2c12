"""Bans opens of RocksDB without explicit options.

`Rdict(path)` reads its mode from a file in the directory and then unpickles what it finds: a hostile directory
executes code. Only `Rdict(path, options, ...)` is allowed, and options only as `Options(raw_mode=True)`.
"""

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

_SKIPPED = {".venv", ".git", "build", "dist"}


def problems(source: str, name: str) -> Iterator[str]:
    """One line for each call that could execute what a directory holds."""
    for node in ast.walk(ast.parse(source, name)):
        if not isinstance(node, ast.Call):
            continue
        called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", None)
        keywords = {keyword.arg: keyword.value for keyword in node.keywords}
        if called == "Rdict" and len(node.args) < 2 and "options" not in keywords:
            yield f"{name}:{node.lineno}: Rdict opened without options executes pickles found in its directory"
        if called == "Options":
            raw_mode = keywords.get("raw_mode", node.args[0] if node.args else None)
            if not (isinstance(raw_mode, ast.Constant) and raw_mode.value is True):
                yield f"{name}:{node.lineno}: Options without raw_mode=True let RocksDB values be unpickled"
        if (
            called in {"repair", "destroy"}
            and _is_rdict(node.func)
            and len(node.args) < 2
            and "options" not in keywords
        ):
            yield f"{name}:{node.lineno}: Rdict.{called} without options"


def _is_rdict(function: ast.expr) -> bool:
    return isinstance(function, ast.Attribute) and getattr(function.value, "id", None) == "Rdict"


def main(root: Path) -> int:
    found = [
        problem
        for path in sorted(root.rglob("*.py"))
        if not _SKIPPED & set(path.relative_to(root).parts)
        for problem in problems(path.read_text(encoding="utf-8"), str(path.relative_to(root)))
    ]
    sys.stdout.writelines(f"{problem}\n" for problem in found)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
