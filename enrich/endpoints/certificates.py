"""Whom a route believes, and how it shows who it is. Files are read again when they change."""

import logging
import ssl
from pathlib import Path

from enrich.base.errors import ConfigError
from enrich.config.sections.edges.expel import HttpEndpoint

_log = logging.getLogger("enrich.expel")

_Marks = tuple[tuple[int, int, int] | None, ...]


class Certificates:
    """The TLS settings for new connections of a route."""

    def __init__(self, endpoint: HttpEndpoint, where: str) -> None:
        """Raises ConfigError for files that cannot be read or do not fit together."""
        self._endpoint = endpoint
        self._where = where
        files = (endpoint.ca_file, endpoint.cert_file, endpoint.key_file)
        self._files = [Path(file) for file in files if file is not None]
        self._read = self._marks()
        self._context = _context(endpoint, where)

    def context(self) -> ssl.SSLContext:
        """By the files as they are now. What cannot be read any more leaves the old ones in use."""
        marks = self._marks()
        if marks != self._read:
            self._read = marks
            try:
                self._context = _context(self._endpoint, self._where)
            except ConfigError as error:
                _log.warning("the new certificates are not taken", extra={"reason": str(error)})
        return self._context

    def _marks(self) -> _Marks:
        return tuple(_mark(file) for file in self._files)


def tls_reason(error: ssl.SSLError) -> str:
    """For people."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return error.verify_message.lower().removesuffix(".")
    return (error.reason or str(error)).lower().replace("_", " ")


def _mark(file: Path) -> tuple[int, int, int] | None:
    try:
        stat = file.stat()
    except OSError:
        return None
    return stat.st_mtime_ns, stat.st_size, stat.st_ino


def _context(endpoint: HttpEndpoint, where: str) -> ssl.SSLContext:
    try:
        context = ssl.create_default_context(cafile=endpoint.ca_file)
    except (OSError, ssl.SSLError) as error:
        raise _unreadable(endpoint.ca_file, "ca_file", where, error) from None
    context.set_alpn_protocols(["http/1.1"])
    if endpoint.cert_file is not None and endpoint.key_file is not None:
        try:
            context.load_cert_chain(endpoint.cert_file, endpoint.key_file, password=_no_password)
        except (OSError, ssl.SSLError, ValueError) as error:
            raise _unreadable(endpoint.cert_file, "cert_file", where, error) from None
    return context


def _no_password() -> str:
    """Called for an encrypted key. Without it, the terminal would be asked."""
    raise ValueError("the key is encrypted, and no password can be given")


def _unreadable(file: object, key: str, where: str, error: Exception) -> ConfigError:
    reason = getattr(error, "strerror", None) or str(error)
    if isinstance(error, ssl.SSLError):
        reason = (error.reason or "it is no PEM file of this kind").lower().replace("_", " ")
    return ConfigError(
        f"{key} cannot be used: {reason} ({file})", where=where, next_step="check the files and who may read them"
    )
