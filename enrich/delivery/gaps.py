"""What happened to a partition while nobody read it: what was missed, and what was read and is no more."""

from dataclasses import dataclass

LEAST_MS = 30_000
"""Marks of deletions are looked after no shorter: commits are some seconds apart."""
_DAY_MS = 86_400_000


@dataclass(frozen=True)
class Bounds:
    """Where a partition begins and ends now."""

    low: int
    high: int


@dataclass(frozen=True)
class Gap:
    """At most one of them is told."""

    doubt: str | None = None
    """Rows may stand in the store that the topic has no more."""
    cut: str | None = None
    """Records were read that the topic has lost: it uses their offsets again."""


def gap_of(
    partition: int, position: int, bounds: Bounds, read_ms: int | None, now_ms: int, forgets_ms: int | None
) -> Gap:
    """`position`: everything below was read; `read_ms`: when that was all there was, or was known to be so last;
    `forgets_ms`: for how long the topic keeps a mark of a deletion."""
    if bounds.high < position:
        return Gap(cut=f"partition {partition} ends at {bounds.high} and was read to {position}")
    if bounds.low > position:
        return Gap(doubt=f"records {position} to {bounds.low} of partition {partition} were removed unread")
    if bounds.high > position and read_ms is not None and forgets_ms is not None and now_ms - read_ms > forgets_ms:
        away, kept = _text(now_ms - read_ms), _text(forgets_ms)
        what = f"partition {partition} was not read for {away}, and its topic keeps marks of deletions for {kept}"
        return Gap(doubt=f"{what} (delete.retention.ms): keys that were deleted meanwhile may still be in the store")
    return Gap()


def forgets_ms(settings: dict[str, str] | None) -> int | None:
    """By a topic's settings; None: they are not known. What is not compacted keeps its marks as long as its records."""
    if settings is None:
        return _DAY_MS
    if "compact" not in settings.get("cleanup.policy", "compact"):
        return None
    return max(int(settings.get("delete.retention.ms", _DAY_MS)), LEAST_MS)


def _text(milliseconds: int) -> str:
    for unit, size in (("days", _DAY_MS), ("hours", 3_600_000), ("minutes", 60_000)):
        if milliseconds >= 2 * size:
            return f"{milliseconds // size} {unit}"
    return f"{milliseconds // 1000} s"
