"""An error that stops a table's progress: logged once, shown in the status, and retried after ever longer pauses.

A table in trouble is set aside: it makes no progress, its rows answer as of its complete_through, and all other tables
go on. So every exception of a table's source, decoder or load ends here, unexpected ones too.
"""

import logging
import random

from enrich.base.errors import EnrichError
from stores.backoff import Backoff
from stores.protocol import Clock

_log = logging.getLogger(__name__)

_LONGEST = 600
"""Characters of a reason: the reasons of all tables must fit into the header."""


class Trouble:
    """The trouble of one table. For one thread."""

    def __init__(self, clock: Clock, what: str, backoff: Backoff | None = None, **where: str) -> None:
        """`what` is the message of its log line, `where` the line's further fields."""
        self._clock = clock
        self._what = what
        self._where = where
        self._backoff = backoff or Backoff()
        self._failures = 0
        self._failed_at_ms = 0
        self._next_try_ms = 0
        self.reason: str | None = None
        """None when there is no trouble."""

    @property
    def next_try_ms(self) -> int | None:
        """When it is tried again (the clock's milliseconds); None when there is no trouble."""
        return None if self.reason is None else self._next_try_ms

    def is_waiting(self) -> bool:
        # A clock that was set back must not delay the next try.
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
    """The error as text for people, short enough for the header."""
    text = str(error)
    if not isinstance(error, EnrichError):
        text = f"{type(error).__name__}: {text}; this is a bug in enrich, agent.log has more"
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."
