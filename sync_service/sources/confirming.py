"""A person's answer to a source that asks whether it may delete so many rows."""

from enrich.base.errors import ConfigError
from enrich.config import Pipeline
from enrich.config.messages.words import hint
from sync_service.sources.building import directory_of
from sync_service.sources.known.deletions import Question, answer, open_question


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


def confirm(pipeline: Pipeline, name: str) -> Question:
    """Allows as many deletions as the source asks for, once. Raises as `asked` does."""
    question = asked(pipeline, name)
    answer(directory_of(pipeline, name), question)
    return question
