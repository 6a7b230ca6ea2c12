"""Gets what bodies need to be read, such as a schema from a registry, while their requests wait: each thing once,
however many wait for it, and nothing is kept of a request that does not wait any longer."""

import asyncio
import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from enrich.base.errors import EnrichError, Retryable

_log = logging.getLogger("enrich.ingest")

_THREADS = 2
_MOST = 16
"""Things that are asked for at once, or wait for it: who needs another one meanwhile comes again."""
_DOWN_S = 1.0
"""So long nothing is asked of a registry that could not be reached."""

Then = Callable[[str | None], None]


class _Waiter:
    __slots__ = ("then", "timer")

    def __init__(self, then: Then, timer: asyncio.TimerHandle) -> None:
        self.then = then
        self.timer = timer


class Fetching:
    """For one event loop."""

    def __init__(self, fetch: Callable[[int], None], loop: asyncio.AbstractEventLoop) -> None:
        """`fetch` may wait: it is called in a thread."""
        self._fetch = fetch
        self._loop = loop
        self._threads: ThreadPoolExecutor | None = None
        self._waiting: dict[int, dict[int, _Waiter]] = {}
        """By what is asked for; each waiter has a number."""
        self._numbers = 0
        self._down: tuple[float, str] = (0.0, "")
        """Until when it counts as down, and why."""

    def wait_for(self, what: int, then: Then, patience_s: float) -> None:
        """Calls `then` once, now or later: with None when it is there, else with the reason why it is not."""
        down_until, why = self._down
        if self._loop.time() < down_until:
            then(why)
            return
        if what not in self._waiting:
            if len(self._waiting) >= _MOST:
                then("the registry is asked for too much at once")
                return
            self._waiting[what] = {}
            if self._threads is None:
                self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="registry")
            self._threads.submit(self._run, what)
        self._numbers += 1
        timer = self._loop.call_later(patience_s, self._late, what, self._numbers)
        self._waiting[what][self._numbers] = _Waiter(then, timer)

    def _late(self, what: int, number: int) -> None:
        self._waiting[what].pop(number).then("the registry does not answer in time")

    def _run(self, what: int) -> None:
        """In the thread."""
        why_not, is_down = None, False
        try:
            self._fetch(what)
        except EnrichError as error:
            why_not, is_down = error.what, isinstance(error, Retryable)
        except Exception:  # noqa: BLE001 - the top of this thread: those that wait get an answer
            _log.exception("this is a bug in enrich; please report it")
            why_not = "a bug of this server"
        self._loop.call_soon_threadsafe(self._fetched, what, why_not, is_down)

    def _fetched(self, what: int, why_not: str | None, is_down: bool) -> None:
        if is_down and why_not is not None:
            self._down = self._loop.time() + _DOWN_S, why_not
        for waiter in self._waiting.pop(what).values():
            waiter.timer.cancel()
            waiter.then(why_not)
