"""Signals that end a program before it has handlers of its own, or at once."""

import os
import signal
import sys
from types import TracebackType
from typing import NoReturn


def quiet_ctrl_c() -> None:
    """From now on an interrupt that nobody heeds, as while a program imports or asks for a broker, shows no traceback.
    The process ends as any that SIGINT has ended."""
    before = sys.excepthook

    def hook(kind: type[BaseException], error: BaseException, traceback: TracebackType | None) -> None:
        if not issubclass(kind, KeyboardInterrupt):
            before(kind, error, traceback)

    sys.excepthook = hook


def end_at_once(signum: int) -> NoReturn:
    """As by the signal itself, without anything that Python does at an end."""
    signal.signal(signum, signal.SIG_DFL)
    signal.raise_signal(signum)
    os._exit(128 + signum)  # the first process of a container, which the kernel spares
