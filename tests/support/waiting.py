"""Tests never sleep to wait for something: they wait on a condition, and a deadline makes its absence a failure."""

import time
from collections.abc import Callable
from typing import TypeVar

from stores.errors import Retryable

_T = TypeVar("_T")

GUARD_S = 300.0
"""Ends what would hang. It promises nothing: a busy machine takes many times as long as this one."""


def wait_until(condition: Callable[[], _T], *, deadline_s: float = GUARD_S, what: str = "the condition") -> _T:
    """Returns the condition's first true value. Fails once the deadline has passed."""
    begin = time.monotonic()
    while True:
        value = condition()
        if value:
            return value
        waited = time.monotonic() - begin
        if waited > deadline_s:
            raise AssertionError(f"{what} did not come true within {deadline_s:g} s")
        # The poll's rhythm, not a wait for something to be done. Slower for what takes seconds: each look may be a
        # question to a broker, and takes processor time from those that are waited for.
        time.sleep(min(0.05, max(0.005, waited / 20)))


def when_reachable(call: Callable[[], _T], *, deadline_s: float = GUARD_S) -> _T:
    """What it returns, once it does: a broker that has just come back refuses some calls for a moment."""
    end = time.monotonic() + deadline_s
    while True:
        try:
            return call()
        except Retryable:
            if time.monotonic() > end:
                raise
        time.sleep(0.05)  # the same
