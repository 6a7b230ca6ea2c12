"""Tests never sleep to wait for something: they wait on a condition, and a deadline makes its absence a failure."""

import time
from collections.abc import Callable
from typing import TypeVar

_T = TypeVar("_T")


def wait_until(condition: Callable[[], _T], *, deadline_s: float = 30.0, what: str = "the condition") -> _T:
    """Returns the condition's first true value. Fails once the deadline has passed."""
    end = time.monotonic() + deadline_s
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > end:
            raise AssertionError(f"{what} did not come true within {deadline_s:g} s")
        time.sleep(0.01)  # the poll's rhythm, not a wait for something to be done
