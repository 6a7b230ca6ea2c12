"""Runs a stage of the configuration: `spark-submit jobs/enrich_stage.py STAGE -c FILE`, or `enrich run STAGE`."""

import argparse
import sys

from enrich.base.exits import DONE, outcome
from enrich.base.logs import LogFormat, LogLevel, setup_logs
from enrich.config import load
from enrich.stage.progress.starting import From
from enrich.stage.run.job import run_stage
from enrich.stage.run.start import RunOptions
from enrich.stage.spark.spark_settings import parse_settings


def main() -> int:
    options = _options()
    setup_logs(LogFormat(options.log_format), LogLevel(options.log_level))
    return outcome(lambda: _run(options))


def _run(options: argparse.Namespace) -> int:
    start = None if options.start is None else From.parse(options.start)
    settings = parse_settings(options.conf)
    chosen = RunOptions(options.master, settings, start, options.new_pin, options.accept_new_source)
    run_stage(load(options.config), options.stage, chosen)
    return DONE


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="enrich_stage.py", description="Runs a stage of a pipeline.")
    parser.add_argument("stage", help="its name under `stages`")
    parser.add_argument("-c", "--config", required=True, help="the pipeline's configuration file")
    parser.add_argument("--master", help="Spark's master; by default that of spark-submit")
    start = "without a checkpoint: earliest, latest, group, group:NAME or a time"
    parser.add_argument("--from", dest="start", help=start)
    parser.add_argument("--new-pin", action="store_true", help="accept other answers for the batch under way")
    accept = "the topic of the events was recreated with the same events at the same offsets: continue in it"
    parser.add_argument("--accept-new-source", action="store_true", help=accept)
    parser.add_argument("--conf", action="append", default=[], metavar="NAME=VALUE", help="a setting for Spark")
    parser.add_argument("--log-format", choices=list(LogFormat), default=LogFormat.text)
    parser.add_argument("--log-level", choices=list(LogLevel), default=LogLevel.info)
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
