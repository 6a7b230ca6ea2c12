"""Runs all routes of a pipeline: each in a thread, restarted after passing errors, all stopped together."""

import logging
import threading
import time
from collections.abc import Sequence
from dataclasses import replace

from enrich.base.backoff import Backoff
from enrich.base.errors import ConfigError, EnrichError, Fatal, Retryable, WouldLoseData
from enrich.service.routes import Paused, Route, RouteState, RouteStatus

_log = logging.getLogger("enrich.service")

# How often a held or paused route is tried: how soon it notices that a person has decided.
_HELD_S = 15.0
# After a route ran so long its back-off starts over.
_RECOVERED_S = 60.0
_LOOK_FOR_SIGNALS_S = 0.5
_REMIND_S = 60.0
"""How often the log repeats the reason why a route does not run."""


class Service:
    """Runs from `run` to `stop`. A route that fails stops only itself, unless its configuration was wrong from the
    start: that stops the service."""

    def __init__(self, routes: Sequence[Route], *, held_s: float = _HELD_S, most_pause_s: float = 30.0) -> None:
        self._stopping = threading.Event()
        self._runners = [_Runner(route, self._stopping, held_s, most_pause_s) for route in routes]

    def run(self) -> None:
        """Returns after `stop`, when every route has finished. Raises a route's ConfigError when the others have
        finished, or the first error if every route has stopped for good."""
        for runner in self._runners:
            runner.start()
        for runner in self._runners:
            # With a time-out: only this thread runs Python's signal handlers, and a signal that the system delivers to
            # another thread does not wake it. Without it such a service ran until it was killed.
            while runner.is_alive():
                runner.join(_LOOK_FOR_SIGNALS_S)
        failures = [runner.failure for runner in self._runners if runner.failure is not None]
        wrong = next((failure for failure in failures if isinstance(failure, ConfigError)), None)
        if wrong is not None:
            raise wrong
        if failures and len(failures) == len(self._runners):
            raise failures[0]

    def stop(self) -> None:
        """Asks all routes to finish. May be called by a signal handler."""
        self._stopping.set()

    @property
    def is_stopping(self) -> bool:
        return self._stopping.is_set()

    @property
    def left(self) -> bool:
        """Whether a route could not finish, or commit, what it had begun."""
        return any(runner.left for runner in self._runners)

    def statuses(self) -> list[RouteStatus]:
        return [status for runner in self._runners if (status := runner.status()).is_of_interest]


class _Runner(threading.Thread):
    """Keeps one route running."""

    def __init__(self, route: Route, stopping: threading.Event, held_s: float, most_pause_s: float) -> None:
        # A daemon: a driver that never returns must not keep the process alive after the deadline of a stop.
        super().__init__(name=f"route {route.name}", daemon=True)
        self.failure: EnrichError | None = None
        self.left = False
        """It was told to stop, and could not finish or commit what it had begun."""
        self._route = route
        self._stopping = stopping
        self._held_s = held_s
        self._backoff = Backoff(0.2, most_pause_s)
        self._last_failure: tuple[RouteState, str, int] | None = None
        """Why the route last failed or paused: its state since, the error, and when."""
        self._logged = ("", float("-inf"))
        """The reason that was last logged, and when."""
        self._is_trying = False

    def run(self) -> None:
        while not self._stopping.is_set():
            started = time.monotonic()
            self._is_trying = True
            try:
                self._route.run(self._stopping)
            except Retryable as error:
                if self._stopping.is_set():
                    self._leave(error)
                    return
                if time.monotonic() - started > _RECOVERED_S:
                    self._backoff.reset()
                    self._logged = ("", float("-inf"))
                self._pause(RouteState.waiting, error, self._backoff.next_s())
            except Paused as error:
                self._pause(RouteState.paused, error, self._held_s)
            except EnrichError as error:
                if not self._needs_a_person(error):
                    self._give_up(error)
                    return
                if self._stopping.is_set():
                    self._leave(error)
                    return
                self._pause(RouteState.held, error, self._held_s)
            except Exception as error:  # noqa: BLE001 - the top of this thread: no error may end it silently
                _log.exception("this is a bug in enrich; please report it", extra={"route": self._route.name})
                self._give_up(Fatal(f"a bug in enrich: {type(error).__name__}", where=f"route {self._route.name}"))
                return
            else:
                return

    def status(self) -> RouteStatus:
        status, shown = self._route.status(), self._last_failure
        # Keep showing the last failure while a new try starts: it may take long, and fail in the same way.
        if shown is None or (self._is_trying and status.state is not RouteState.starting):
            return status
        state, text, when = shown
        return replace(status, state=state, last_error=text, last_error_ms=when, rows_per_s=0.0, is_of_interest=True)

    def _needs_a_person(self, error: EnrichError) -> bool:
        # The configuration was right before: a table is missing, perhaps during a migration. Nothing is lost meanwhile,
        # so the other routes go on.
        has_worked = self._route.status().last_progress_ms is not None
        return isinstance(error, WouldLoseData) or (isinstance(error, ConfigError) and has_worked)

    def _pause(self, state: RouteState, error: EnrichError, seconds: float) -> None:
        self._last_failure, self._is_trying = (state, str(error), time.time_ns() // 1_000_000), False
        extra = {"route": self._route.name, "again_in_s": round(seconds, 1)}
        is_news = str(error) != self._logged[0] or time.monotonic() - self._logged[1] >= _REMIND_S
        _log.log(logging.WARNING if is_news else logging.DEBUG, "the route does not run: %s", error, extra=extra)
        if is_news:
            self._logged = (str(error), time.monotonic())
        self._stopping.wait(seconds)

    def _leave(self, error: EnrichError) -> None:
        self.left = True
        what = "what the route did last may be done again: it stopped with an error: %s"
        _log.warning(what, error, extra={"route": self._route.name})

    def _give_up(self, error: EnrichError) -> None:
        self.failure = error
        self._last_failure, self._is_trying = (RouteState.stopped, str(error), time.time_ns() // 1_000_000), False
        _log.error("the route stopped: %s", error, extra={"route": self._route.name})
        if isinstance(error, ConfigError):
            self._stopping.set()
