"""An error that is met again and again: logged once, shown in the status, and retried after ever longer pauses.

A table in trouble is set aside: it makes no progress, its rows answer as of its complete_through, and all other tables
go on. So every exception of a table's source, decoder or load ends here, unexpected ones too. Trouble with its segments
only makes a table slower.
"""

import logging
import random
import time

from enrich.base.errors import EnrichError
from stores.backoff import Backoff
from stores.protocol import Clock

_log = logging.getLogger(__name__)

_LONGEST = 600
"""Characters of a reason: the reasons of all tables must fit into the header."""


class Trouble:
    """For one thread; any thread may read `note`."""

    def __init__(self, clock: Clock, backoff: Backoff | None = None) -> None:
        self._clock = clock
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

    @property
    def note(self) -> str | None:
        """The reason and the time of the next try, for people."""
        if self.reason is None:
            return None
        next_try = time.localtime(self._next_try_ms / 1000)
        return f"{self.reason}; tried again at {time.strftime('%H:%M:%S', next_try)}"

    def is_waiting(self) -> bool:
        # A clock that was set back must not delay the next try.
        return self.reason is not None and self._failed_at_ms <= self._clock.now_ms() < self._next_try_ms

    def met(self, error: BaseException, what: str, **where: str) -> None:
        """`what` is the message of its log line, `where` the line's further fields."""
        reason = reason_of(error)
        if self.reason != reason:
            is_known = isinstance(error, EnrichError)
            _log.warning(what, extra={**where, "reason": reason}, exc_info=None if is_known else error)
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
