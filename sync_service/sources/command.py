"""`enrich sync confirm`: a person allows a source the deletions that it asks for."""

import argparse
from dataclasses import asdict

from enrich.base.errors import ConfigError, WouldLoseData
from enrich.base.exits import DONE, exit_code, print_error
from enrich.base.json_lines import print_json
from enrich.config import Pipeline
from sync_service.sources.confirming import asked
from sync_service.sources.confirming import confirm as allow


def confirm(pipeline: Pipeline, options: argparse.Namespace) -> int:
    """Exits with 4 without --yes, with 2 if a source asks for nothing."""
    if not options.routes:
        raise ConfigError("name the sources that may delete rows")
    worst = DONE
    for name in options.routes:
        question = allow(pipeline, name) if options.yes else asked(pipeline, name)
        if options.json:
            print_json({"source": name, **asdict(question), "confirmed": options.yes})
        if options.yes:
            if not options.json:
                print(f"{name}: {question.missing} of {question.rows} rows will be deleted")  # noqa: T201 - a command's answer
            continue
        refused = WouldLoseData(
            f"{question.missing} of {question.rows} rows would be deleted",
            where=f"source {name}",
            next_step="add --yes",
        )
        print_error(refused)
        worst = exit_code(refused)
    return worst
