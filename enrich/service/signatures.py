"""Signs requests by Standard Webhooks, so that a receiver knows who sent them, and that nobody changed or repeats them.

See https://www.standardwebhooks.com.
"""

import base64
import hashlib
import hmac
from collections.abc import Mapping, Sequence

from enrich.base.errors import ConfigError
from enrich.base.signing import MAKES_ONE, WANTED, signing_key


class Signer:
    """The secrets of a route. With two, as while one is replaced, each request has both signatures."""

    def __init__(self, secrets: Sequence[str], where: str) -> None:
        """Raises ConfigError for a secret that is none. It is not quoted."""
        self._keys = [_key(secret, where) for secret in secrets]

    def headers(self, message_id: str, time_s: int, body: bytes) -> Mapping[str, str]:
        """`body` as it goes over the wire, compressed if it is."""
        signed = b"%b.%d.%b" % (message_id.encode(), time_s, body)
        signatures = ["v1," + base64.b64encode(hmac.digest(key, signed, hashlib.sha256)).decode() for key in self._keys]
        return {
            "webhook-id": message_id,
            "webhook-timestamp": str(time_s),
            "webhook-signature": " ".join(signatures),
        }


def verifies(secret: str, headers: Mapping[str, str], body: bytes) -> bool:
    """Whether a request has a signature by this secret: what a receiver does."""
    try:
        expected = Signer([secret], "secret").headers(headers["webhook-id"], int(headers["webhook-timestamp"]), body)
    except (KeyError, ValueError):
        return False
    own = expected["webhook-signature"].encode()  # of texts it takes only ASCII
    given = headers.get("webhook-signature", "").encode(errors="replace")
    return any(hmac.compare_digest(own, one) for one in given.split(b" "))


def _key(secret: str, where: str) -> bytes:
    key = signing_key(secret)
    if key is None:
        raise ConfigError(f"a signing secret is {WANTED}", where=where, next_step=f"make one: {MAKES_ONE}")
    return key
