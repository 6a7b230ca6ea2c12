"""An endpoint's address, taken apart once: whom to ask for, whom to believe, and what to write into each request."""

import re
from dataclasses import dataclass
from urllib.parse import quote, urlsplit

from enrich.base.errors import ConfigError

_PORTS = {"http": 80, "https": 443}
_NAME = re.compile(r"[A-Za-z0-9_]([A-Za-z0-9_.-]{0,252})")
_IN_PATHS = "/:@!$&'()*+,;=~%"


@dataclass(frozen=True, slots=True)
class Target:
    is_tls: bool
    name: str
    """Host name in ASCII, or an address; the certificate must be for it."""
    port: int
    host: str
    """The header Host."""
    path: str
    """With the query, escaped. May hold secrets."""


def target_of(url: str, where: str) -> Target:
    """Raises ConfigError, which shows nothing of the address but the host."""
    parts = urlsplit(url)
    if parts.username is not None:
        raise ConfigError(
            "a login in the address is not sent", where=where, next_step="give the endpoint's token as `token`"
        )
    name = _ascii(parts.hostname or "", where)
    port = parts.port or _PORTS[parts.scheme]
    shown = f"[{name.partition('%')[0]}]" if ":" in name else name
    path = quote(parts.path or "/", safe=_IN_PATHS)
    query = f"?{quote(parts.query, safe=_IN_PATHS + '?')}" if parts.query else ""
    return Target(
        is_tls=parts.scheme == "https",
        name=name,
        port=port,
        host=shown if port == _PORTS[parts.scheme] else f"{shown}:{port}",
        path=path + query,
    )


def bearer(token: str, where: str) -> str:
    """The token as it is sent. Raises ConfigError, which does not show it."""
    if not token.isascii() or not token.isprintable() or " " in token:
        raise ConfigError(
            "the token has characters that no header can have", where=where, next_step="correct the token"
        )
    return token


def _ascii(host: str, where: str) -> str:
    if ":" in host:
        return host.replace("%25", "%")  # the zone of a link-local address
    try:
        name = host if host.isascii() else host.encode("idna").decode("ascii")
    except UnicodeError:
        name = ""
    name = name.removesuffix(".")  # the root's dot is in no certificate
    if not _NAME.fullmatch(name):
        raise ConfigError(f"{host!r} is no name of a host", where=where, next_step="correct the url")
    return name
