"""What a builder leaves out of the context: the patterns of .dockerignore, the last one that matches decides."""

import re
from dataclasses import dataclass
from pathlib import Path, PurePosixPath


@dataclass(frozen=True)
class Ignoring:
    patterns: tuple[str, ...]

    def leaves_out(self, path: PurePosixPath) -> bool:
        ignored = False
        for pattern in self.patterns:
            wanted = pattern.startswith("!")
            # A pattern that matches a folder holds for all below it.
            if any(_matches(pattern.lstrip("!"), part) for part in (path, *path.parents)):
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


def _matches(pattern: str, path: PurePosixPath) -> bool:
    expression = re.escape(pattern).replace(r"\*\*/", "(?:.*/)?").replace(r"\*\*", ".*").replace(r"\*", "[^/]*")
    return re.fullmatch(expression.replace(r"\?", "[^/]"), str(path)) is not None
