"""The program: `python -m edge_service ROLE -c FILE` runs one of three roles until it gets SIGTERM or SIGINT."""

import argparse
import sys
from collections.abc import Callable, Mapping

from enrich.base.exits import outcome
from enrich.base.logs import LogFormat, LogLevel, setup_logs
from enrich.config import Pipeline, load


def _ingest(pipeline: Pipeline) -> int:
    from edge_service.ingest.program import run

    return run(pipeline)


def _expel(pipeline: Pipeline) -> int:
    from edge_service.expel.program import run

    return run(pipeline)


def _retrier(pipeline: Pipeline) -> int:
    from edge_service.retrier.program import run

    return run(pipeline)


# Each is imported when it runs: none needs what the others need.
_ROLES: Mapping[str, Callable[[Pipeline], int]] = {"ingest": _ingest, "expel": _expel, "retrier": _retrier}


def main() -> int:
    options = _options()
    setup_logs(LogFormat(options.log_format), LogLevel(options.log_level))
    return outcome(lambda: _ROLES[options.role](load(options.config)))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m edge_service", description="Events in and out over HTTP.")
    parser.add_argument("role", choices=list(_ROLES))
    parser.add_argument("-c", "--config", required=True, help="the pipeline's configuration file")
    parser.add_argument("--log-format", choices=list(LogFormat), default=LogFormat.text)
    parser.add_argument("--log-level", choices=list(LogLevel), default=LogLevel.info)
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
