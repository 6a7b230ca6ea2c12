"""What keeps a table from moving on: said once, shown to everybody, and tried again after ever longer pauses.

A table in trouble is set aside: it stands still, its rows answer as of its complete_through, and all others go on. So
whatever a table's source, decoder or load raises ends here, also what nobody has thought of.
"""

import logging
import random

from enrich.base.errors import EnrichError
from stores.backoff import Backoff
from stores.protocol import Clock

_log = logging.getLogger(__name__)

_LONGEST = 600
"""Characters of a reason: it stands in the header, which has room for those of all tables."""


class Trouble:
    """Of one table. For one thread."""

    def __init__(self, clock: Clock, what: str, backoff: Backoff | None = None, **where: str) -> None:
        """`what` and `where`: the words of its line in the log."""
        self._clock = clock
        self._what = what
        self._where = where
        self._backoff = backoff or Backoff()
        self._failures = 0
        self._failed_at_ms = 0
        self._next_try_ms = 0
        self.reason: str | None = None
        """None: there is none."""

    @property
    def next_try_ms(self) -> int | None:
        """The clock when it is tried again; None without a trouble."""
        return None if self.reason is None else self._next_try_ms

    def is_waiting(self) -> bool:
        # A clock that was set back must not put it off.
        return self.reason is not None and self._failed_at_ms <= self._clock.now_ms() < self._next_try_ms

    def met(self, error: BaseException) -> None:
        reason = reason_of(error)
        if self.reason != reason:
            is_known = isinstance(error, EnrichError)
            extra = {**self._where, "reason": reason}
            _log.warning(self._what, extra=extra, exc_info=None if is_known else error)
        self.reason = reason
        self._failures += 1
        delay_s = self._backoff.delay_s(self._failures, random.random())  # noqa: S311 - only spreads retries
        self._failed_at_ms = self._clock.now_ms()
        self._next_try_ms = self._failed_at_ms + round(delay_s * 1000)

    def is_over(self) -> None:
        self.reason, self._failures = None, 0


def reason_of(error: BaseException) -> str:
    """For people, short enough for the header."""
    text = str(error)
    if not isinstance(error, EnrichError):
        text = f"{type(error).__name__}: {text}; this is a bug in enrich, agent.log has more"
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."
