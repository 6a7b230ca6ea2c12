"""Which mask each column of a topic has, and what says so."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

from enrich.config.sections.masks.section import RECORD_KEY, Masking, Masks
from enrich.config.sections.pipeline import Pipeline
from enrich.config.sections.tables.table import Table

Entries = tuple[tuple[str, Mapping[str, Masking]], ...]


@dataclass(frozen=True)
class Classified:
    masking: Masking
    by: str | None
    """The entry and the column or pattern in it, as `app.users.email`; None: nothing, so the default holds."""


@dataclass(frozen=True)
class TopicMasks:
    """Of the columns of one topic or table."""

    entries: Entries
    """Those that apply, the most exact first."""
    default: Masking

    def of(self, column: str) -> Classified:
        for entry, columns in self.entries:
            # A column may be called like the records' key.
            if column in columns and column != RECORD_KEY:
                return Classified(columns[column], f"{entry}.{column}")
            for pattern, masking in columns.items():
                if pattern != RECORD_KEY and fnmatchcase(column, pattern):
                    return Classified(masking, f"{entry}.{pattern}")
        return Classified(self.default, None)

    @property
    def of_key(self) -> Classified:
        """Of the records' key as a whole. Keys that nobody classified stay joinable."""
        for entry, columns in self.entries:
            if RECORD_KEY in columns:
                return Classified(columns[RECORD_KEY], f"{entry}.{RECORD_KEY}")
        return Classified(Masking.hmac, None)


@dataclass(frozen=True)
class Classification:
    """The masks of all topics, without the key. It travels to workers."""

    entries: Entries
    default: Masking
    tables: Mapping[str, str]
    """By topic, the tables that the pipeline's sources make topics of."""

    @classmethod
    def of_pipeline(cls, pipeline: Pipeline) -> "Classification | None":
        """None if it has no masks."""
        if pipeline.masks is None:
            return None
        return cls(tuple(_meant(pipeline.masks)), pipeline.masks.default, dict(_tables(pipeline)))

    def of(self, topic: str) -> TopicMasks:
        """Of the events or rows of a topic."""
        names = self._names(topic)
        by_name = dict(self.entries)
        exact = [(name, by_name[name]) for name in names if name in by_name]
        patterns = [
            (entry, columns)
            for entry, columns in self.entries
            if entry not in names and any(fnmatchcase(name, entry) for name in names)
        ]
        return TopicMasks((*exact, *patterns), self.default)

    def of_table(self, name: str, table: Table) -> TopicMasks:
        """Of the rows of a table of the pipeline; one that comes from no topic goes by its own name."""
        return self.of(table.topic or name)

    def _names(self, topic: str) -> Sequence[str]:
        """What entries can call the topic, the most exact name first: `cdc.app.users` is also `app.users`."""
        parts = topic.split(".")
        names = [topic, self.tables.get(topic), ".".join(parts[-2:]) if len(parts) > 2 else None]
        return list(dict.fromkeys(name for name in names if name is not None))


def _meant(masks: Masks) -> Iterator[tuple[str, Mapping[str, Masking]]]:
    for entry, columns in masks.entries.items():
        yield entry, {column: masks.masking(word) or Masking.withhold for column, word in columns.items()}


def _tables(pipeline: Pipeline) -> Iterator[tuple[str, str]]:
    if pipeline.sync is not None:
        for source in pipeline.sync.sources.values():
            postgres = source.from_.postgres
            if postgres is not None and postgres.table is not None:
                yield source.topic, postgres.table
