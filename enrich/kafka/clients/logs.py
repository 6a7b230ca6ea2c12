"""What the Kafka clients log, without its repetitions: a broker that is away is tried twenty times a second by each."""

import logging
import re
import threading
import time

_EVERY_S = 60.0
_MOST_KINDS = 1_000
"""Messages name what they are about; whoever meets so many at once forgets the former ones."""
_VARIES = re.compile(r"\[enrich#[^]]*\] |\(after .*\)|\d+ (?=request|in-flight|retry-queued|out-queue|partially)")


_RETRIED = re.compile(r"Failed to acquire .*PID from broker .*: retrying")
"""While the brokers load what they know of transactions, as after their start: the caller has a deadline, and says so
in its words when that has passed."""


class OncePerMinute(logging.Filter):
    """Lets a message pass once a minute, whichever client it is of, and says how many like it there were; what the
    client only has to try again, never."""

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
            record.__dict__["like_it"] = held
        return True
