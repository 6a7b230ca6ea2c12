"""How a person answers a source that asks whether so many rows are to be deleted."""

from enrich.base.errors import ConfigError
from enrich.config import Pipeline
from enrich.config.messages.words import hint
from sync_service.sources.building import directory_of
from sync_service.sources.known.deletions import Question, answer, open_question


def asked(pipeline: Pipeline, name: str) -> Question:
    """What the source waits for. Raises ConfigError when it asks for nothing, or there is no such source."""
    names = () if pipeline.sync is None else tuple(pipeline.sync.sources)
    if name not in names:
        raise ConfigError(f"there is no source {name}{hint(name, names, 'sources')}")
    question = open_question(directory_of(pipeline, name))
    if question is None:
        raise ConfigError(
            f"the source {name} does not ask for anything here",
            next_step="run this where the sync service has its state_dir",
        )
    return question


def confirm(pipeline: Pipeline, name: str) -> Question:
    """Allows, once, as many deletions as the source asks for. Raises as `asked` does."""
    question = asked(pipeline, name)
    answer(directory_of(pipeline, name), question)
    return question
