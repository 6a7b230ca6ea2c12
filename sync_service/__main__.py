"""The program: `python -m sync_service -c FILE` runs the routes of a pipeline until it gets SIGTERM or SIGINT."""

import argparse
import gc
import logging
import os
import signal
import sys
import threading
from types import FrameType

from enrich.base.exits import DONE, FAILED, outcome
from enrich.base.logs import LogFormat, LogLevel, setup_logs
from enrich.config import Pipeline, load
from sync_service import heaps
from sync_service.building import routes_of
from sync_service.page import serve_status
from sync_service.reconcile.command import reconcile
from sync_service.service import Service
from sync_service.writeback.command import control

_log = logging.getLogger("enrich.sync")

# If stopping takes longer, a driver hangs: exit anyway. The next instance reads what is not committed again.
_STOP_S = 25.0


def main() -> int:
    options = _options()
    setup_logs(LogFormat(options.log_format), LogLevel(options.log_level or _level(options.command)))
    return outcome(lambda: _command(options))


def _command(options: argparse.Namespace) -> int:
    pipeline = load(options.config)
    heaps.keep_small()
    if options.command == "reconcile":
        gc.freeze()
        gc.set_threshold(50_000)  # looking for reference cycles took a tenth of the CPU time, and rows make none
        return reconcile(pipeline, options)
    if options.command == "confirm":
        from sync_service.sources.command import confirm

        return confirm(pipeline, options)
    if options.command in ("pause", "resume", "resync"):
        return control(pipeline, options)
    _run(pipeline)
    # All is committed and all clients are closed. Skip the interpreter's clean-up: drivers may hang in it.
    logging.shutdown()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(DONE)


def _run(pipeline: Pipeline) -> None:
    service = Service(routes_of(pipeline))
    listen = "127.0.0.1:0" if pipeline.sync is None else pipeline.sync.listen
    page = serve_status(service, pipeline.name, listen)
    _log.info("the status is on http://%s/status", page.address)

    def stop(signum: int, frame: FrameType | None) -> None:  # noqa: ARG001 - the signature of a handler
        if not service.is_stopping:
            deadline = threading.Timer(_STOP_S, os._exit, [FAILED])
            deadline.daemon = True
            deadline.start()
            # A driver that hangs while it holds the GIL stops the timer's thread too. Only the kernel can end that.
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
            signal.alarm(round(_STOP_S) + 5)
        service.stop()

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, stop)
    # Objects that exist now are kept for good. Without this the collector would scan them for each batch of records.
    gc.collect()
    gc.freeze()
    try:
        service.run()
    finally:
        page.close()


def _level(command: str) -> LogLevel:
    return LogLevel.info if command == "run" else LogLevel.warning


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m sync_service", description="Runs the routes of the section `sync`."
    )
    parser.add_argument(
        "command", nargs="?", choices=["run", "reconcile", "confirm", "pause", "resume", "resync"], default="run"
    )
    parser.add_argument("routes", nargs="*", help="under sync.writeback; for confirm, under sync.sources")
    parser.add_argument("-c", "--config", required=True, help="the pipeline's configuration file")
    parser.add_argument("--repair", action="store_true", help="for reconcile: write what differs")
    parser.add_argument("--yes", action="store_true", help="for reconcile and confirm: also delete rows")
    parser.add_argument(
        "--raise-generation",
        action="store_true",
        help="for reconcile: with --repair, write all rows again with newer versions",
    )
    parser.add_argument("--json", action="store_true", help="for all but run: one JSON object a line")
    parser.add_argument("--log-format", choices=list(LogFormat), default=LogFormat.text)
    parser.add_argument("--log-level", choices=list(LogLevel))
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
