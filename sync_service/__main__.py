"""The program: `python -m sync_service -c FILE` runs the routes of a pipeline until it gets SIGTERM or SIGINT."""

import argparse
import gc
import sys
from functools import partial

from enrich.base.exits import outcome
from enrich.base.logs import LogFormat, LogLevel, setup_logs
from enrich.config import Pipeline, load
from enrich.service.program import leave, run_routes
from enrich.service.status import Program
from sync_service import heaps
from sync_service.building import close, routes_of
from sync_service.reconcile.command import reconcile
from sync_service.writeback.command import control


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
    routes = routes_of(pipeline)
    run_routes(routes, Program("sync", pipeline.name, _listen(pipeline), "sync.listen"), partial(close, routes))
    return leave()


def _listen(pipeline: Pipeline) -> str:
    return "127.0.0.1:0" if pipeline.sync is None else pipeline.sync.listen


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
