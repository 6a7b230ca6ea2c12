"""`enrich sync confirm`: a person allows a source the deletions that it asks for."""

import argparse
from dataclasses import asdict

from enrich.base.errors import ConfigError, WouldLoseData
from enrich.base.exits import DONE, exit_code, print_error
from enrich.base.json_lines import print_json
from enrich.config import Pipeline
from enrich.config.messages.words import hint
from sync_service.sources.building import directory_of
from sync_service.sources.known.deletions import Question, answer, open_question


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


def asked(pipeline: Pipeline, name: str) -> Question:
    """The source's open question. Raises ConfigError if it has none, or there is no such source."""
    names = () if pipeline.sync is None else tuple(pipeline.sync.sources)
    if name not in names:
        raise ConfigError(f"there is no source {name}{hint(name, names, 'sources')}")
    question = open_question(directory_of(pipeline, name))
    if question is None:
        raise ConfigError(
            f"the source {name} has no open question on this host",
            next_step="run this on the host of the sync service, with the same state_dir",
        )
    return question


def allow(pipeline: Pipeline, name: str) -> Question:
    """Allows as many deletions as the source asks for, once. Raises as `asked` does."""
    question = asked(pipeline, name)
    answer(directory_of(pipeline, name), question)
    return question
