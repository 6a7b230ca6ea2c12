"""Passwords, alone or inside addresses: passed to who connects, masked wherever a person could see them."""

import re

from pydantic import SecretStr

MASK = "***"

# Both patterns are applied to hostile text: they must not backtrack from every character of a long word.
_URL = re.compile(r"(?<![A-Za-z0-9+.-])[A-Za-z][A-Za-z0-9+.-]{0,30}://[^:@/\s]*:")
_PAIR = re.compile(
    r"(?P<query>[?&])?(?P<name>\b\w{0,30}(?:password|passwd|pwd|secret|token|api_?key)\w{0,30}\s{0,9}=\s{0,9})"
    # Only in a URL's query an & ends the value.
    r"(?P<value>'(?:\\.|[^'\\])*'?|(?(query)[^\s&]+|(?:\\.|[^\s\\])+))",
    re.IGNORECASE,
)

SECRET_NAMES = (  # as Java understands it, too: Spark gets it
    r"(?i)secret|password|passphrase|token|jaas|access[.]?key|account[.]?key|private[.]?key|encryption[.]key"  # noqa: S105 - names
    r"|credential(?!s?[.]provider)|[.]sas[.]|ssl[.]keystore[.]key|ssl[.]key"
)
"""Finds the names of settings whose values are secrets: of Spark, of Hadoop's file systems, and of Kafka's clients.
A provider of credentials is none: its value is the name of a class."""


def mask(text: str) -> str:
    """The text with `***` for the password of a URL (`redis://user:***@host`) or DSN (`password=***`)."""
    # Masks everything up to the last @, since people paste passwords with unescaped @ and /. Masking too much is a
    # nuisance, too little a leak.
    last = text.rfind("@")
    found = _URL.search(text, 0, last) if last > 0 else None
    if found is not None:
        text = f"{text[: found.end()]}{MASK}{text[last:]}"
    return _PAIR.sub(lambda pair: f"{pair['query'] or ''}{pair['name']}{MASK}", text)


class SecretAddress(SecretStr):
    """A URL or DSN that may contain a password: shown with the password masked, read by `get_secret_value()`."""

    def _display(self) -> str:
        return mask(self._secret_value)


class Password(SecretStr):
    """A password: never shown, read by `get_secret_value()`."""

    def _display(self) -> str:
        return MASK
