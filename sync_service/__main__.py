"""The program: `python -m sync_service -c FILE` runs the routes of a pipeline until it is told to stop."""

import argparse
import logging
import signal
import sys
from types import FrameType

from enrich.cli.output import DONE, FAILED, exit_code, print_error
from enrich.config import load
from enrich.errors import EnrichError
from enrich.logs import LogFormat, LogLevel, setup_logs
from sync_service.building import routes_of
from sync_service.service import Service


def main() -> int:
    options = _options()
    setup_logs(LogFormat(options.log_format), LogLevel(options.log_level))
    try:
        _run(options.config)
    except EnrichError as error:
        print_error(error)
        return exit_code(error)
    except Exception:
        logging.getLogger("enrich").exception("this is a bug in enrich; please report it with the lines below")
        return FAILED
    return DONE


def _run(config: str) -> None:
    service = Service(routes_of(load(config)))

    def stop(signum: int, frame: FrameType | None) -> None:  # noqa: ARG001 - the signature of a handler
        service.stop()

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, stop)
    service.run()


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m sync_service", description="Runs the routes of the section `sync`."
    )
    parser.add_argument("command", nargs="?", choices=["run"], default="run")
    parser.add_argument("-c", "--config", required=True, help="the pipeline's configuration file")
    parser.add_argument("--log-format", choices=list(LogFormat), default=LogFormat.text)
    parser.add_argument("--log-level", choices=list(LogLevel), default=LogLevel.info)
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
