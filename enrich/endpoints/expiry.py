"""Until when a certificate of ours is good."""

import ssl
from pathlib import Path

_IGNORES_TIME = ssl.VerifyFlags(0x200000)  # X509_V_FLAG_NO_CHECK_TIME, for which Python has no name


def ends_at(certificate: Path, key: Path) -> float:
    """When a certificate ends that its owner shows to servers, in seconds since 1970; it may have ended. Raises
    ssl.SSLError, also for one that is made for another purpose, and OSError.

    The standard library reads a certificate only once it was verified. So a handshake is made in memory, with a server
    that believes this one.
    """
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(certificate, key)
    server.load_verify_locations(certificate)
    server.verify_mode = ssl.CERT_REQUIRED
    server.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN | _IGNORES_TIME
    client = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    client.check_hostname = False
    client.verify_mode = ssl.CERT_NONE
    client.load_cert_chain(certificate, key)
    there, back = ssl.MemoryBIO(), ssl.MemoryBIO()
    ours = client.wrap_bio(back, there)
    theirs = server.wrap_bio(there, back, server_side=True)
    done = False
    while not done:
        done = all([_goes_on(ours), _goes_on(theirs)])
    shown = theirs.getpeercert() or {}
    return float(ssl.cert_time_to_seconds(str(shown["notAfter"])))


def _goes_on(side: ssl.SSLObject) -> bool:
    """Whether its handshake is done."""
    try:
        side.do_handshake()
    except ssl.SSLWantReadError:
        return False
    return True
