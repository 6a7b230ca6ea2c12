"""Runs the routes of a program until it gets SIGTERM or SIGINT, with its page."""

import gc
import logging
import os
import signal
import sys
import threading
from collections.abc import Callable, Sequence
from types import FrameType
from typing import NoReturn

from enrich.base.exits import DONE, FAILED
from enrich.service.routes import Route
from enrich.service.service import Service
from enrich.service.status import Program, serve_status

_log = logging.getLogger("enrich.service")

# If stopping takes longer, a driver hangs: exit anyway. The next instance reads what is not committed again.
_STOP_S = 27.0


def run_routes(routes: Sequence[Route], program: Program, close: Callable[[], object]) -> None:
    """Returns when all have finished. Raises what stopped them, or ConfigError if the page's address is taken.

    `close` is called once they have finished: what works for all of them may have something in its hands still.
    """
    service = Service(routes)
    page = serve_status(service, program)
    logging.getLogger(f"enrich.{program.name}").info("the status is on http://%s/status", page.address)

    def stop(signum: int, frame: FrameType | None) -> None:  # noqa: ARG001 - the signature of a handler
        if not service.is_stopping:
            exit_after(_STOP_S)
        service.stop()

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, stop)
    # Objects that exist now are kept for good. Without this the collector would scan them for each batch of records.
    gc.collect()
    gc.freeze()
    try:
        try:
            service.run()
        finally:
            close()
        what = "stopped" if service.left else "stopped: what was begun is done and committed"
        logging.getLogger(f"enrich.{program.name}").info(what)
    finally:
        page.close()


def exit_after(seconds: float) -> None:
    """Ends the process if it is still there then, and says so."""
    deadline = threading.Timer(seconds, _exit_late, [seconds])
    deadline.daemon = True
    deadline.start()
    # A driver that hangs while it holds the GIL stops the timer's thread too. Only the kernel can end that.
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.alarm(round(seconds) + 5)


def _exit_late(seconds: float) -> None:
    _log.error(
        "it has not ended within %g s of being told to stop, as while brokers or a store do not answer: it ends now. "
        "What is not committed is done again",
        seconds,
    )
    os._exit(FAILED)


def leave() -> NoReturn:
    """To be called when all is committed and closed. Skips the interpreter's clean-up: drivers may hang in it."""
    logging.shutdown()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(DONE)
