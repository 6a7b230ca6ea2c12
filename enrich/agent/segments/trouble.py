"""Something that goes wrong again and again: said once, and tried again after ever longer pauses."""

import logging
import random
import time

from stores.backoff import Backoff

_log = logging.getLogger(__name__)

_BACKOFF = Backoff(first_s=0.5, longest_s=30)


class Trouble:
    def __init__(self) -> None:
        self._failures = 0
        self._not_before_s = 0.0
        self._said: str | None = None

    def is_waiting(self) -> bool:
        return time.monotonic() < self._not_before_s

    def met(self, error: Exception, what: str, **where: str) -> None:
        if self._said != str(error):
            _log.warning(what, extra={**where, "reason": str(error)})
        self._said = str(error)
        self._failures += 1
        self._not_before_s = time.monotonic() + _BACKOFF.delay_s(self._failures, random.random())  # noqa: S311 - only spreads retries

    def is_over(self) -> None:
        self._failures, self._not_before_s, self._said = 0, 0.0, None
