"""Retry-After is read where it says something, and is nothing where it does not."""

from datetime import UTC, datetime

import pytest

from enrich.endpoints.retry_after import LONGEST_S, retry_after_s

NOW = datetime(2026, 11, 24, 3, 0, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        ("0", 0.0),
        (" 120 ", 120.0),
        ("9999999999", LONGEST_S),
        ("Tue, 24 Nov 2026 03:01:30 GMT", 90.0),
        ("Tue, 24 Nov 2026 03:01:30 -0000", 90.0),
        ("Tue, 24 Nov 2026 04:01:30 +0100", 90.0),
        ("Mon, 23 Nov 2026 03:01:30 GMT", 0.0),
        ("Fri, 31 Dec 9999 23:59:59 GMT", LONGEST_S),
    ],
)
def test_seconds_and_dates_are_read(value, seconds):
    assert retry_after_s(value, NOW) == seconds


@pytest.mark.parametrize(
    "value",
    [None, "", "soon", "-1", "1.5", "1e3", "٣", "0x10", "9" * 400, "Tue, 99 Nov 2026 03:00:00 GMT", "\0", ", " * 500],
)
def test_anything_else_is_nothing(value):
    assert retry_after_s(value, NOW) is None
