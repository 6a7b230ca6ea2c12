"""What of an endpoint's configuration is a secret, and must not be shown when the endpoint repeats it."""

import re
from collections.abc import Iterator
from urllib.parse import unquote, unquote_plus, urlsplit

from enrich.endpoints.target import Target

_LEAST = 8
"""Characters of a part of the address that may be a secret. Shorter ones are words."""
_SHORTEST_VALUE = 4
"""The same of a value in its query, which is more likely to be one."""
_BETWEEN_VALUES = re.compile("[&;]")


class Hidden:
    """Of one endpoint: its token, and all of its address that lets people in. Pages of errors repeat paths."""

    def __init__(self, url: str = "", target: Target | None = None, token: str | None = None) -> None:
        """`url` as it is configured, `target` as it is sent."""
        secrets = {token} if token else set[str]()
        for address in {url, "" if target is None else target.path}:
            secrets |= set(_secrets_of(address))
        longest_first = sorted(secrets, key=len, reverse=True)
        self._pattern = re.compile("|".join(map(re.escape, longest_first)), re.IGNORECASE) if secrets else None

    def left_out_of(self, text: str) -> str:
        return text if self._pattern is None else self._pattern.sub("***", text)


def _secrets_of(address: str) -> Iterator[str]:
    parts = urlsplit(address)
    values = [item.partition("=")[2] for item in _BETWEEN_VALUES.split(parts.query)]
    query = f"?{parts.query}" if parts.query else ""
    for secret in (address, parts.path + query, parts.path, parts.query, *parts.path.split("/")):
        yield from (form for form in (secret, unquote(secret)) if len(form) >= _LEAST)
    for value in values:
        yield from (form for form in (value, unquote_plus(value)) if len(form) >= _SHORTEST_VALUE)
