"""Detects what happened to a partition while nobody read it: records that were missed, and records that were lost."""

from dataclasses import dataclass

LEAST_MS = 30_000
"""The least retention of tombstones that is checked for: commits are some seconds apart."""
_DAY_MS = 86_400_000


@dataclass(frozen=True)
class Bounds:
    """The watermarks of a partition: where it begins and ends now."""

    low: int
    high: int


@dataclass(frozen=True)
class Gap:
    """At most one of the two is set."""

    doubt: str | None = None
    """Why the store may have rows that the topic does not have any more."""
    cut: str | None = None
    """The topic has lost records that were read, and uses their offsets again."""


def gap_of(
    partition: int, position: int, bounds: Bounds, read_ms: int | None, now_ms: int, tombstones_kept_ms: int | None
) -> Gap:
    """`position`: everything below was read. `read_ms`: when the partition was last known to be read to its end.
    `tombstones_kept_ms`: for how long the topic keeps tombstones; None: for as long as its other records."""
    if bounds.high < position:
        return Gap(cut=f"partition {partition} ends at {bounds.high} and was read to {position}")
    if bounds.low > position:
        return Gap(doubt=f"records {position} to {bounds.low} of partition {partition} were removed unread")
    if (
        bounds.high > position
        and read_ms is not None
        and tombstones_kept_ms is not None
        and now_ms - read_ms > tombstones_kept_ms
    ):
        away, kept = _text(now_ms - read_ms), _text(tombstones_kept_ms)
        what = f"partition {partition} was not read for {away}, and its topic keeps tombstones for {kept}"
        return Gap(doubt=f"{what} (delete.retention.ms): keys that were deleted meanwhile may still be in the store")
    return Gap()


def tombstones_kept_ms(settings: dict[str, str] | None) -> int | None:
    """By a topic's settings (None: unknown). None if it is not compacted: tombstones stay as long as other records."""
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
