"""The fields of an event that become the record's key and its event time."""

from datetime import UTC, datetime, timedelta

Field = tuple[str, ...]
"""The path to a field: `("device", "id")`."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MS = timedelta(milliseconds=1)
EARLIEST_MS = (datetime.min.replace(tzinfo=UTC) - _EPOCH) // _MS
LATEST_MS = (datetime.max.replace(tzinfo=UTC) - _EPOCH) // _MS


def key_text(value: object) -> bytes | None:
    """A key as it is written to the topic; None for what can be no key."""
    if type(value) is str:
        return value.encode()
    if type(value) is int:
        return str(value).encode()
    if type(value) is bool:
        return b"true" if value else b"false"
    return None


def time_ms(value: object) -> int | None:
    """Milliseconds since 1970; None for what is no time."""
    if type(value) is int:
        return value if EARLIEST_MS <= value <= LATEST_MS else None
    if type(value) is str:
        try:
            time = datetime.fromisoformat(value)
            return None if time.tzinfo is None else (time - _EPOCH) // _MS
        except (ValueError, OverflowError):
            return None
    return None
