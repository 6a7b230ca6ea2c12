"""What a builder leaves out of the context: the patterns of .dockerignore, the last one that matches decides."""

import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path, PurePosixPath


@dataclass(frozen=True)
class Ignoring:
    patterns: tuple[str, ...]

    def leaves_out(self, path: PurePosixPath) -> bool:
        ignored = False
        paths = [str(part) for part in (path, *path.parents)]
        for pattern in self.patterns:
            wanted = pattern.startswith("!")
            # A pattern that matches a folder holds for all below it.
            if any(_matches(pattern.lstrip("!"), part) for part in paths):
                ignored = not wanted
        return ignored

    def files_under(self, root: Path, source: str) -> list[PurePosixPath]:
        """The files that a COPY of this source takes along."""
        start = root / source
        found = [start] if start.is_file() else sorted(path for path in start.rglob("*") if path.is_file())
        relative = [PurePosixPath(path.relative_to(root).as_posix()) for path in found]
        return [path for path in relative if not self.leaves_out(path)]


def parse_ignoring(text: str) -> Ignoring:
    lines = (line.strip() for line in text.splitlines())
    return Ignoring(tuple(line.removesuffix("/") for line in lines if line and not line.startswith("#")))


def _matches(pattern: str, path: str) -> bool:
    return _expression(pattern).fullmatch(path) is not None


@cache
def _expression(pattern: str) -> re.Pattern[str]:
    text = re.escape(pattern).replace(r"\*\*/", "(?:.*/)?").replace(r"\*\*", ".*").replace(r"\*", "[^/]*")
    return re.compile(text.replace(r"\?", "[^/]"))
