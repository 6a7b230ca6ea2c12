"""Problems of a configuration file: found by rules, reported with file and line, raised all at once."""

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any, Self

from enrich.base.errors import ConfigError

Path = tuple[str | int, ...]
"""The path of a value in the file's tree: `("stages", "enrich", "lookups", 0, "key")`."""


@dataclass(frozen=True)
class TextPosition:
    """A position in the file's text; both count from 1."""

    line: int
    column: int | None = None


@dataclass(frozen=True)
class Finding:
    """Something wrong at a path, before its line is known."""

    path: Path
    message: str
    about: tuple[Path, ...] = ()
    """The other values that it depends on: if one of them is refused itself, the finding is not reported."""
    key: bool = False
    """It concerns the key (unknown, duplicate), not the value."""
    offset: int | None = None
    """Index of the character in the value's text that it points at."""
    position: TextPosition | None = None
    """Its position, if that is neither the key nor the value of the path."""


@dataclass(frozen=True)
class Problem:
    """One line of the output of `config check`."""

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
        # The inherited method would pass the message's parts, and fail in the process that unpickles the error.
        return type(self), (self.problems,)


def path_text(path: Path) -> str:
    """`stages.enrich.lookups[0].key`, as people write it."""
    text = ""
    for step in path:
        text += f"[{step}]" if isinstance(step, int) else f".{step}" if text else step
    return text
