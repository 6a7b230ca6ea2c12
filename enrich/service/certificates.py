"""A server's certificate and key: read from files, and looked at."""

import ssl
from pathlib import Path

from enrich.base.errors import ConfigError

_IGNORES_TIME = ssl.VerifyFlags(0x200000)  # X509_V_FLAG_NO_CHECK_TIME, for which Python has no name


def load_pair(context: ssl.SSLContext, certificate: Path, key: Path) -> None:
    """Raises ConfigError for files that cannot be used, also for a key with a password: OpenSSL would ask for that at
    the terminal."""
    try:
        context.load_cert_chain(certificate, key, password=_no_password)
    except (OSError, ssl.SSLError) as error:
        raise ConfigError(
            f"the certificate cannot be used: {_why_unusable(error)}",
            where=f"{certificate}, {key}",
            next_step="correct cert_file and key_file, or their permissions",
        ) from error


def ends_at(certificate: Path, key: Path) -> float:
    """When a certificate ends that a server shows, in seconds since 1970; it may have ended. Raises ConfigError for
    files that cannot be used."""
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    load_pair(server, certificate, key)
    client = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    client.check_hostname = False
    # It is trusted because it is ours: only its dates are asked for. Python shows them of a peer's certificate alone.
    client.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN | _IGNORES_TIME
    client.load_verify_locations(certificate)
    try:
        peer = _handshake(server, client).getpeercert() or {}
    except ssl.SSLCertVerificationError as error:
        raise ConfigError(
            f"the certificate cannot be used: {error.verify_message}",
            where=str(certificate),
            next_step="correct cert_file: it needs a certificate for servers",
        ) from error
    except ssl.SSLError as error:  # such as NO_SHARED_CIPHER: of some kinds of keys clients offer nothing
        reason = (error.reason or str(error)).lower().replace("_", " ")
        raise ConfigError(
            f"the certificate cannot be used, no connection comes about with it: {reason}",
            where=str(certificate),
            next_step="correct cert_file: all clients take an RSA key, or an elliptic one of P-256",
        ) from error
    return float(ssl.cert_time_to_seconds(str(peer["notAfter"])))


def _handshake(server: ssl.SSLContext, client: ssl.SSLContext) -> ssl.SSLObject:
    """The client's side of one in memory."""
    up, down = ssl.MemoryBIO(), ssl.MemoryBIO()
    ours = client.wrap_bio(down, up)
    theirs = server.wrap_bio(up, down, server_side=True)
    while not all([_is_done(ours), _is_done(theirs)]):
        pass
    return ours


def _is_done(side: ssl.SSLObject) -> bool:
    try:
        side.do_handshake()
    except ssl.SSLWantReadError:
        return False
    return True


def _no_password() -> str:
    raise OSError("the key has a password; write it without one: openssl pkey -in KEY -out NEW_KEY")


def _why_unusable(error: OSError) -> str:
    reason = getattr(error, "reason", None)
    if reason == "KEY_VALUES_MISMATCH":
        return "the key is not that of the certificate"
    if isinstance(error, ssl.SSLError):
        return f"not PEM files of a certificate and a key ({reason or error})"
    return error.strerror or str(error)
