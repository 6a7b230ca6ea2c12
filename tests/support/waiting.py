"""Tests never sleep to wait for something: they wait on a condition, and a deadline makes its absence a failure."""

import os
import time
from collections.abc import Callable
from typing import TypeVar

from stores.errors import Retryable

_T = TypeVar("_T")

GUARD_S = 300.0
"""Ends what would hang. It promises nothing: a busy machine takes many times as long as this one."""


def wait_until(
    condition: Callable[[], _T], *, deadline_s: float = GUARD_S, what: str | Callable[[], str] = "the condition"
) -> _T:
    """Returns the condition's first true value. Fails once the deadline has passed; a `what` that is called then can
    tell how far it came."""
    begin = time.monotonic()
    while True:
        before = _processor_time()
        value = condition()
        if value:
            return value
        cost = _processor_time() - before
        waited = time.monotonic() - begin
        if waited > deadline_s:
            told = what if isinstance(what, str) else what()
            raise AssertionError(f"{told} did not come true within {deadline_s:g} s")
        # The poll's rhythm, not a wait for something to be done. Slower for what takes seconds, and for a look that is
        # a command or a whole topic: each takes processor time from those that are waited for.
        time.sleep(max(min(0.2, max(0.005, waited / 20)), min(0.5, cost)))


def _processor_time() -> float:
    """Of this process and the commands that it ran."""
    own = os.times()
    return own.user + own.system + own.children_user + own.children_system


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
