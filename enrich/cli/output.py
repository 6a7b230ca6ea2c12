"""What a command shows to people: moments, and bytes that a terminal must not obey."""

from datetime import UTC, datetime


def time_text(milliseconds: int | None) -> str:
    """A moment as people read it, in UTC."""
    if milliseconds is None:
        return ""
    try:
        return datetime.fromtimestamp(milliseconds / 1000, UTC).isoformat(" ", "milliseconds")
    except (ValueError, OverflowError):  # of a record whose producer counts in microseconds, say: beyond the calendar
        return f"{milliseconds} ms"


def readable(content: bytes | None, when_none: str) -> str:
    """Bytes for a terminal: as text where they are text that can be shown, else in hex."""
    if content is None:
        return when_none
    text = text_of(content)
    # A terminal obeys control characters, so they are shown as hex too.
    if text is not None and (text.isprintable() or text.replace("\n", "").replace("\t", "").isprintable()):
        return text
    return f"hex {content.hex(' ')}"


def text_of(content: bytes | None) -> str | None:
    """None where the bytes are no UTF-8."""
    try:
        return None if content is None else content.decode()
    except UnicodeDecodeError:
        return None
