"""Limits what the Kafka clients log: each client tries an unreachable broker twenty times a second."""

import logging
import re
import threading
import time

_EVERY_S = 60.0
_MOST_KINDS = 1_000
"""Messages contain names, so their number is unbounded: with so many different ones all are forgotten."""
_VARIES = re.compile(r"\[enrich#[^]]*\] |\(after .*\)|\d+ (?=request|in-flight|retry-queued|out-queue|partially)")


_RETRIED = re.compile(r"Failed to acquire .*PID from broker .*: retrying")
"""Logged while the brokers load their transaction state, as after a restart. The caller has a deadline, and reports the
failure when that has passed."""


class OncePerMinute(logging.Filter):
    """Lets each message pass once a minute, whichever client it is from, with the number of similar ones that were held
    back. Messages of `_RETRIED` never pass."""

    def __init__(self) -> None:
        super().__init__()
        self._lock = threading.Lock()
        self._passed: dict[str, float] = {}
        self._held: dict[str, int] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        if _RETRIED.search(record.getMessage()):
            return False
        kind, now = _VARIES.sub("", record.getMessage()), time.monotonic()
        with self._lock:
            if now - self._passed.get(kind, float("-inf")) < _EVERY_S:
                self._held[kind] = self._held.get(kind, 0) + 1
                return False
            if len(self._passed) >= _MOST_KINDS:
                self._passed.clear()
                self._held.clear()
            self._passed[kind] = now
            held = self._held.pop(kind, 0)
        if held:
            record.__dict__["suppressed"] = held
        return True
