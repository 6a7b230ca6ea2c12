"""Replaces `${VAR}` and `${VAR:-default}` in the file's values; `$${` is a literal `${`."""

import re
from collections.abc import Mapping

from enrich.config.messages.words import Substituted, Wrong

_REFERENCE = re.compile(r"\$\$\{|\$\{(?P<inside>[^{}]*)(?P<closed>\})?")
_INSIDE = re.compile(r"(?P<name>[A-Za-z_][A-Za-z0-9_]*)(?P<default>:-(?P<text>.*))?", re.DOTALL)


class Unset(Wrong):
    """A variable that is not set, and has no default."""


def substitute(text: str, environ: Mapping[str, str]) -> str:
    """The text with its references replaced; replaced text is not expanded again. Raises Wrong, naming the variable.

    Raises Unset for one without a value. As in a shell, the default is also used for one that is set to the empty text.
    """
    if "${" not in text:
        return text
    read: list[str] = []

    def value_of(found: re.Match[str]) -> str:
        if found[0] == "$${":
            return "${"
        inside = _INSIDE.fullmatch(found["inside"])
        if inside is None or found["closed"] is None:
            raise Wrong(
                "expected ${NAME} or ${NAME:-default} (defaults cannot contain braces; a literal ${ is written $${)",
                found.start(),
            )
        name, value = inside["name"], environ.get(inside["name"])
        if inside["default"] is not None and not value:
            return inside["text"]
        if value is None:
            message = f"the environment variable {name} is not set; set it, or give a default: ${{{name}:-...}}"
            raise Unset(message, found.start())
        read.append(name)
        return value

    return Substituted(_REFERENCE.sub(value_of, text), read)


def escape(text: str) -> str:
    """The text that `substitute` turns into this one."""
    return text.replace("${", "$${")
