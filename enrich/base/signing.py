"""Secrets by which requests are signed, as Standard Webhooks write them."""

import base64
import binascii

_PREFIX = "whsec_"
_SHORTEST, _LONGEST = 24, 64
"""Bytes of a secret, by the standard."""

WANTED = f"{_PREFIX} and the base64 of {_SHORTEST} to {_LONGEST} random bytes"
MAKES_ONE = f"printf '{_PREFIX}%s' \"$(head -c 32 /dev/urandom | base64)\""
"""A command for a shell."""


def signing_key(secret: str) -> bytes | None:
    """The bytes that a secret stands for; None if it is not one."""
    try:
        key = base64.b64decode(secret.removeprefix(_PREFIX), validate=True)
    except (binascii.Error, ValueError):
        return None
    return key if _SHORTEST <= len(key) <= _LONGEST else None
