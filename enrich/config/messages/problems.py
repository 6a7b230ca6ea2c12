"""What is wrong with a configuration file, and where: found by rules, told with file and line, raised all at once."""

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any, Self

from enrich.base.errors import ConfigError

Path = tuple[str | int, ...]
"""Where a value stands in the file's tree: `("stages", "enrich", "lookups", 0, "key")`."""


@dataclass(frozen=True)
class TextPosition:
    """A position in the file's text; both count from 1."""

    line: int
    column: int | None = None


@dataclass(frozen=True)
class Finding:
    """Something wrong at a path, before it is known on which line that stands."""

    path: Path
    message: str
    about: tuple[Path, ...] = ()
    """The other values it was concluded from: when one of these is itself refused, the finding is not told."""
    key: bool = False
    """It is about the key (unknown, given twice), not about the value."""
    offset: int | None = None
    """The character of the value's text that it points at."""
    place: TextPosition | None = None
    """Where it is, when that is neither the key nor the value of the path."""


@dataclass(frozen=True)
class Problem:
    """One line of what `config check` tells."""

    file: str
    line: int
    column: int | None
    key: str
    message: str

    def __str__(self) -> str:
        return f"{self.position}: {self.key}: {self.message}" if self.key else f"{self.position}: {self.message}"

    @property
    def position(self) -> str:
        return f"{self.file}:{self.line}" if self.column is None else f"{self.file}:{self.line}:{self.column}"

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


class ConfigProblems(ConfigError):
    """All problems of one configuration file, in the order of the file."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = tuple(problems)
        lines = [str(problem) for problem in self.problems]
        if len(lines) == 1:
            super().__init__(lines[0])
        else:
            super().__init__("\n  ".join([f"{self.problems[0].file} has {len(lines)} problems", *lines]))

    def __reduce__(self) -> tuple[type[Self], tuple[tuple[Problem, ...]]]:
        # The inherited way would call us with the message's parts, and fail in the process that receives the error.
        return type(self), (self.problems,)


def path_text(path: Path) -> str:
    """`stages.enrich.lookups[0].key`, as people write it."""
    text = ""
    for step in path:
        text += f"[{step}]" if isinstance(step, int) else f".{step}" if text else step
    return text
