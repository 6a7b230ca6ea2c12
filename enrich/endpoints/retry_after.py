"""Reads the header Retry-After, whatever an endpoint writes into it."""

import re
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

LONGEST_S = 7 * 24 * 3600.0
"""No endpoint makes an event wait for longer by this header."""

_SECONDS = re.compile(r"[0-9]{1,10}")


def retry_after_s(value: str | None, now: datetime) -> float | None:
    """How long the endpoint wants to be left alone. None if it does not say, or nothing that can be understood."""
    text = (value or "").strip()
    if _SECONDS.fullmatch(text):
        return min(float(text), LONGEST_S)
    try:
        at = parsedate_to_datetime(text)
    except (ValueError, TypeError, IndexError, OverflowError):
        return None
    if at.tzinfo is None:  # -0000: a time in UTC whose zone is not known
        at = at.replace(tzinfo=UTC)
    return min(max(0.0, (at - now).total_seconds()), LONGEST_S)
