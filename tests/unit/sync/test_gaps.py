"""What a partition missed while nobody read it, and what it lost of what was read."""

import pytest

from enrich.delivery.partitions.gaps import LEAST_MS, Bounds, gap_of, tombstones_kept_ms

DAY = 86_400_000
NOW = 100 * DAY


@pytest.mark.parametrize(
    ("position", "bounds", "read_ms", "expected"),
    [
        (10, (0, 10), NOW - 5 * DAY, None),  # nothing came
        (10, (0, 11), NOW - DAY // 2, None),
        (10, (0, 11), None, None),  # committed by an older release
        (10, (0, 11), NOW - 3 * DAY, "was not read for 3 days, and its topic keeps tombstones for 24 hours"),
        (10, (12, 20), NOW, "records 10 to 12 of partition 7 were removed unread"),
        (10, (10, 20), NOW, None),
        (10, (0, 9), NOW, "partition 7 ends at 9 and was read to 10"),
    ],
)
def test_what_is_told(position: int, bounds: tuple[int, int], read_ms: int | None, expected: str | None) -> None:
    gap = gap_of(7, position, Bounds(*bounds), read_ms, NOW, DAY)
    assert (gap.cut is not None) == (bounds[1] < position)
    told = gap.cut or gap.doubt
    assert told is None if expected is None else expected in (told or "")


def test_for_how_long_marks_of_deletions_are_kept() -> None:
    assert tombstones_kept_ms(None) == DAY
    assert tombstones_kept_ms({"cleanup.policy": "compact", "delete.retention.ms": "7200000"}) == 7_200_000
    assert tombstones_kept_ms({"cleanup.policy": "compact,delete", "delete.retention.ms": "5"}) == LEAST_MS
    assert tombstones_kept_ms({"cleanup.policy": "delete", "delete.retention.ms": "5"}) is None
