"""Ctrl-C before a program has a handler of its own."""

import sys
from types import TracebackType


def quiet_ctrl_c() -> None:
    """From now on an interrupt that nobody heeds, as while a program imports or asks for a broker, shows no traceback.
    The process ends as any that SIGINT has ended."""
    before = sys.excepthook

    def hook(kind: type[BaseException], error: BaseException, traceback: TracebackType | None) -> None:
        if not issubclass(kind, KeyboardInterrupt):
            before(kind, error, traceback)

    sys.excepthook = hook
