"""Passwords inside addresses: kept for the driver that connects, masked wherever a person could see them."""

import re

from pydantic import SecretStr

MASK = "***"

# Everything up to the last @, since people paste passwords with @ and / in them unescaped. Too much masked is a
# nuisance, too little is a leak.
_URL = re.compile(r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*://)(?P<user>[^:@/\s]*):(?P<password>.*)@", re.DOTALL)
_PAIR = re.compile(
    r"(?P<name>\b\w*(?:password|passwd|pwd|secret|token)\w*\s*=\s*)(?P<value>'(?:\\.|[^'\\])*'?|[^\s&]+)",
    re.IGNORECASE,
)


def mask(text: str) -> str:
    """The text with `***` for the password of a URL (`redis://user:***@host`) or DSN (`password=***`)."""
    text = _URL.sub(lambda found: f"{found['scheme']}{found['user']}:{MASK}@", text)
    return _PAIR.sub(lambda found: f"{found['name']}{MASK}", text)


class SecretAddress(SecretStr):
    """A URL or DSN that may contain a password: shown with the password masked, read by `get_secret_value()`."""

    def _display(self) -> str:
        return mask(self._secret_value)


class Password(SecretStr):
    """A password: never shown, read by `get_secret_value()`."""

    def _display(self) -> str:
        return MASK
