"""`enrich sync confirm`: a person allows a source the deletions that it asks for."""

import argparse
from dataclasses import asdict
from pathlib import Path

from enrich.base.errors import ConfigError, WouldLoseData
from enrich.base.exits import DONE, exit_code, print_error
from enrich.base.json_lines import print_json
from enrich.config import Pipeline
from enrich.config.messages.words import hint
from enrich.config.sections.sync.sources import topic_of_table
from sync_service.sources.building import directory_of
from sync_service.sources.known.deletions import Question, answer, open_question
from sync_service.sources.logged.followed.many import directory_of_table


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
    question = open_question(_directory(pipeline, name))
    if question is None:
        raise ConfigError(
            f"the source {name} has no open question on this host",
            next_step="run this on the host of the sync service, with the same state_dir",
        )
    return question


def allow(pipeline: Pipeline, name: str) -> Question:
    """Allows as many deletions as the source asks for, once. Raises as `asked` does."""
    question = asked(pipeline, name)
    answer(_directory(pipeline, name), question)
    return question


def _directory(pipeline: Pipeline, name: str) -> Path:
    """Where the source asks. `source/schema.table`: a table of a source that has many."""
    sources = {} if pipeline.sync is None else pipeline.sync.sources
    source, _, table = name.partition("/")
    if source not in sources or (table and not sources[source].has_many_tables):
        what = f"there is no source {name}{hint(name, tuple(sources), 'sources')}"
        choices = f"choose from {', '.join(sources)}" if sources else "name some under `sync.sources`"
        raise ConfigError(what, where="sync.sources", next_step=choices)
    if not sources[source].has_many_tables:
        return directory_of(pipeline, source)
    topic = topic_of_table(sources[source].topic, *table.split(".", 1)) if "." in table else None
    if topic is None:
        raise ConfigError(f"name the table of {source} that may lose rows: {source}/SCHEMA.TABLE")
    return directory_of_table(directory_of(pipeline, source), topic)
