"""Tests never sleep to wait for something: they wait on a condition, and a deadline makes its absence a failure."""

import time
from collections.abc import Callable
from typing import TypeVar

from stores.errors import Retryable

_T = TypeVar("_T")


def wait_until(condition: Callable[[], _T], *, deadline_s: float = 120.0, what: str = "the condition") -> _T:
    """Returns the condition's first true value. Fails once the deadline has passed."""
    end = time.monotonic() + deadline_s
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > end:
            raise AssertionError(f"{what} did not come true within {deadline_s:g} s")
        time.sleep(0.01)  # the poll's rhythm, not a wait for something to be done


def when_reachable(call: Callable[[], _T], *, deadline_s: float = 180.0) -> _T:
    """What it returns, once it does: a broker that has just come back refuses some calls for a moment."""
    end = time.monotonic() + deadline_s
    while True:
        try:
            return call()
        except Retryable:
            if time.monotonic() > end:
                raise
        time.sleep(0.05)  # the same
