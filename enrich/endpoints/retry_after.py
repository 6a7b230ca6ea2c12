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
    at = _moment(text)
    return None if at is None else min(max(0.0, (at - now).total_seconds()), LONGEST_S)


def now_there(date: str | None) -> datetime:
    """By the header Date of an answer: a time in it is of the endpoint's clock. If it does not say, by ours."""
    return _moment((date or "").strip()) or datetime.now(UTC)


def _moment(text: str) -> datetime | None:
    try:
        at = parsedate_to_datetime(text)
    except (ValueError, TypeError, IndexError, OverflowError):
        return None
    return at.replace(tzinfo=UTC) if at.tzinfo is None else at  # -0000: a time in UTC whose zone is not known
