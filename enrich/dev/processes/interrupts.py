"""Handles Ctrl-C, SIGTERM and SIGHUP while servers start: noted, acted on between two steps, then passed on.

A signal's exception can come between any two instructions and would leave a process that was just started and is not
recorded yet. So during a start the signals are only noted.
"""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Interrupted(Exception):
    """A signal came while servers started. The signal itself is passed on when `deferred` ends."""


class Deferred:
    """The signals received so far."""

    def __init__(self) -> None:
        self.received: list[int] = []
        self._previous: dict[signal.Signals, object] = {}
        self._final = False
        self._ignores_children = False

    @property
    def pending(self) -> bool:
        return bool(self.received)

    @property
    def hurried(self) -> bool:
        """Whether more than one came: somebody is impatient."""
        return len(self.received) > 1

    def check(self) -> None:
        if self.pending:
            raise Interrupted

    def commit(self, *, final: bool) -> None:
        """Keeps the started servers, unless a signal came before now. With `final` later signals have no effect: the
        process only has to print what it did."""
        if final:
            for number in self._previous:
                signal.signal(number, signal.SIG_IGN)
            self._final = True
        self.check()

    def _note(self, number: int, frame: FrameType | None) -> None:  # noqa: ARG002 - the signature of a handler
        self.received.append(number)

    def _install(self) -> None:
        for number in _SIGNALS:
            previous = signal.getsignal(number)
            # None: a handler that Python did not install. An ignored signal (nohup, a shell's `&`) stays ignored.
            if previous not in (None, signal.SIG_IGN):
                self._previous[number] = previous
                signal.signal(number, self._note)
        # Some parents hand this down. Nobody could say then how a step of a server's preparation has ended.
        self._ignores_children = signal.getsignal(signal.SIGCHLD) is signal.SIG_IGN
        if self._ignores_children:
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)

    def _restore(self) -> None:
        if self._ignores_children:
            signal.signal(signal.SIGCHLD, signal.SIG_IGN)
        if self._final and not self.pending:
            return
        for number, previous in self._previous.items():
            signal.signal(number, previous)  # type: ignore[arg-type]  # what getsignal gave
        if self.pending:
            signal.raise_signal(self.received[0])


@contextmanager
def deferred() -> Iterator[Deferred]:
    """Defers signals. Does nothing outside of the main thread, where Python delivers none."""
    signals = Deferred()
    if threading.current_thread() is not threading.main_thread():
        yield signals
        return
    try:
        signals._install()
        yield signals
    finally:
        signals._restore()
