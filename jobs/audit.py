"""Audits a day of a pipeline: `spark-submit jobs/audit.py -c FILE --day YYYY-MM-DD`, or `enrich observe audit`."""

import argparse
import sys
from datetime import date
from pathlib import Path

from enrich.audit.auditing import AuditOptions, run_audit
from enrich.audit.showing import as_json, print_day, summed
from enrich.base.errors import ConfigError
from enrich.base.exits import DIFFERENCE, DONE, outcome
from enrich.base.json_lines import print_json
from enrich.base.logs import LogFormat, LogLevel, setup_logs
from enrich.config import load
from enrich.stage.spark.spark_settings import parse_settings


def main() -> int:
    options = _options()
    setup_logs(LogFormat(options.log_format), LogLevel(options.log_level))
    return outcome(lambda: _run(options))


def _run(options: argparse.Namespace) -> int:
    chosen = AuditOptions(
        _day(options.day), options.route, options.delivered, options.master, parse_settings(options.conf)
    )
    with run_audit(load(options.config), chosen) as audit:
        if not options.json:
            by_way = summed(audit.found)
            print_day(options.day, by_way, audit.skipped, every_name=options.all)
            return DIFFERENCE if any(whole.lost or whole.differences for whole in by_way.values()) else DONE
        outcome = DONE
        for found in audit.found:
            print_json(as_json(found, every_name=options.all))
            outcome = DIFFERENCE if found.audited.lost or found.differences else outcome
        for route, why in audit.skipped.items():
            print_json({"route": route, "minute": None, "not_audited": why})
        return outcome


def _day(text: str) -> date:
    try:
        return date.fromisoformat(text)
    except ValueError:
        raise ConfigError(f"expected a day such as 2026-01-31, got {text!r}", where="--day") from None


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="audit.py", description="Audits a day of a pipeline by its topics.")
    parser.add_argument("-c", "--config", required=True, help="the pipeline's configuration file")
    parser.add_argument("--day", required=True, help="by UTC, such as 2026-01-31")
    parser.add_argument("--route", help="only ways through the pipeline whose name has this in it")
    parser.add_argument("--delivered", type=Path, metavar="FILE", help="origins that the receivers have")
    parser.add_argument("--all", action="store_true", help="name every range of lost events")
    parser.add_argument("--json", action="store_true", help="one JSON object per line")
    parser.add_argument("--master", help="Spark's master; by default that of spark-submit")
    parser.add_argument("--conf", action="append", default=[], metavar="NAME=VALUE", help="a setting for Spark")
    parser.add_argument("--log-format", choices=list(LogFormat), default=LogFormat.text)
    parser.add_argument("--log-level", choices=list(LogLevel), default=LogLevel.warning)
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
