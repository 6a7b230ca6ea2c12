"""Formats values and names for messages: in the file's words, short, and without secrets."""

import difflib
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeVar

from enrich.config.messages.masking import mask

Parsed = TypeVar("Parsed")

_LONGEST = 60


class Wrong(ValueError):
    """A value that a field does not accept. The message is for the person who wrote it."""

    def __init__(self, message: str, offset: int | None = None) -> None:
        super().__init__(message)
        self.offset = offset


class Substituted(str):
    """A text in which `${...}` was replaced, with the variables whose values are in it.

    Fields of other types accept it too (`port: ${PORT}`), since environment variables are always text. Its value is
    never shown: a password in the wrong field must not end up in a log.
    """

    variables: tuple[str, ...]

    def __new__(cls, text: str, variables: Iterable[str]) -> "Substituted":
        self = super().__new__(cls, text)
        self.variables = tuple(variables)
        return self

    def __reduce__(self) -> tuple[type["Substituted"], tuple[str, tuple[str, ...]]]:
        return Substituted, (str(self), self.variables)


def parsed(value: str, parse: Callable[[str], Parsed], expected: str) -> Parsed:
    """The result of `parse`. Its errors quote the text, so they are replaced if that comes from the environment."""
    try:
        return parse(str(value))
    except Wrong:
        if isinstance(value, Substituted) and value.variables:
            raise Wrong(f"expected {expected}, got {shown(value)}") from None
        raise


def shown(value: object) -> str:
    """The value in the file's words, for `..., got ...`."""
    match value:
        case Substituted() if value.variables:
            return "the value of " + ", ".join(f"${{{name}}}" for name in value.variables)
        case str():
            return _quoted(shortened(mask(value))) if value.strip() else "an empty text"
        case None:
            return "nothing"
        case bool():
            return "true" if value else "false"
        case int() | float():
            return f"the number {value}"
        case Mapping():
            return "a mapping"
        case list() | tuple():
            return "a list"
    return f"a {type(value).__name__}"


def _quoted(text: str) -> str:
    return f"“{text}”" if " " in text else text


def shortened(text: str) -> str:
    """The text on one line, cut if it is long."""
    line = json.dumps(text, ensure_ascii=False)[1:-1].replace('\\"', '"') if not text.isprintable() else text
    return line if len(line) <= _LONGEST else line[: _LONGEST - 1] + "…"


def nearest(word: str, options: Iterable[str]) -> str | None:
    """The option that was most likely meant, or None."""
    by_fold = {option.casefold(): option for option in options}
    found = difflib.get_close_matches(word.casefold(), by_fold, n=1, cutoff=0.55)
    return by_fold[found[0]] if found else None


def hint(word: object, options: Sequence[str], what: str) -> str:
    """`; did you mean X?`, else `; <what>: A, B, C`: to be added to a message."""
    close = nearest(word, options) if isinstance(word, str) else None
    if close is not None and close != word:
        return f"; did you mean {close}?"
    return f"; {what}: {', '.join(options)}" if options else ""


def listed(options: Sequence[str]) -> str:
    """`a, b or c`."""
    return options[0] if len(options) == 1 else f"{', '.join(options[:-1])} or {options[-1]}"
