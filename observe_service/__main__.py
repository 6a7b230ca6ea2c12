"""The program: `python -m observe_service -c FILE` observes a pipeline until it gets SIGTERM or SIGINT."""

import argparse
import sys

from enrich.base.exits import outcome
from enrich.base.logs import LogFormat, LogLevel, setup_logs
from enrich.config import load


def main() -> int:
    options = _options()
    setup_logs(LogFormat(options.log_format), LogLevel(options.log_level))

    def observe() -> int:
        from observe_service.program import run

        return run(load(options.config))

    return outcome(observe)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m observe_service", description="Verdicts on a pipeline's minutes.")
    parser.add_argument("-c", "--config", required=True, help="the pipeline's configuration file")
    parser.add_argument("--log-format", choices=list(LogFormat), default=LogFormat.text)
    parser.add_argument("--log-level", choices=list(LogLevel), default=LogLevel.info)
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
