"""A repeated error of segments: logged once, and retried after ever longer pauses.

Unlike `enrich.host.trouble` it does not set the table aside: it only costs the table its segments.
"""

import logging
import random
import time

from enrich.base.errors import EnrichError
from enrich.host.trouble import reason_of
from stores.backoff import Backoff

_log = logging.getLogger(__name__)

_BACKOFF = Backoff(first_s=0.5, longest_s=30)


class Trouble:
    def __init__(self) -> None:
        self._failures = 0
        self._not_before_s = 0.0
        self._said: str | None = None
        self._next_try = ""

    @property
    def note(self) -> str | None:
        """The error and the time of the next try, for the status; None when all is well."""
        return None if self._said is None else f"{self._said}; tried again at {self._next_try}"

    def is_waiting(self) -> bool:
        return time.monotonic() < self._not_before_s

    def met(self, error: Exception, what: str, **where: str) -> None:
        reason = reason_of(error)
        if self._said != reason:
            is_known = isinstance(error, EnrichError | OSError)
            _log.warning(what, extra={**where, "reason": reason}, exc_info=None if is_known else error)
        self._said = reason
        self._failures += 1
        delay_s = _BACKOFF.delay_s(self._failures, random.random())  # noqa: S311 - only spreads retries
        self._not_before_s = time.monotonic() + delay_s
        self._next_try = time.strftime("%H:%M:%S", time.localtime(time.time() + delay_s))

    def is_over(self) -> None:
        self._failures, self._not_before_s, self._said = 0, 0.0, None
