"""The section `sync.sources`: each makes an external system's rows the records of a compacted topic."""

from datetime import timedelta
from enum import StrEnum
from typing import Annotated

from pydantic import BeforeValidator, Field, WithJsonSchema

from enrich.config.messages.words import Substituted, Wrong, shown
from enrich.config.types.columns import ColumnList
from enrich.config.types.encoding import Encoded
from enrich.config.types.fields import Names, PostgresDsn, Section, SourceFile, Text, Topic, one_of
from enrich.config.types.quantities import Duration


class FileType(StrEnum):
    csv = "csv"
    json = "json"
    parquet = "parquet"


def _as_share(value: object) -> float:
    number = value
    if isinstance(value, Substituted):
        try:
            number = float(value)
        except ValueError:
            number = None
    if isinstance(number, int | float) and not isinstance(number, bool) and 0 <= number <= 1:
        return float(number)
    raise Wrong(f"expected a share from 0 to 1, such as 0.2, got {shown(value)}")


Share = Annotated[float, BeforeValidator(_as_share), WithJsonSchema({"type": "number", "minimum": 0, "maximum": 1})]


class PostgresOrigin(Section):
    """A PostgreSQL table or view."""

    dsn: PostgresDsn
    """Address of the database."""
    table: Text
    """The table or view, with its schema if that is not on the search path."""
    key: Names
    """The columns of a unique key. Several make a composite key, in this order."""
    columns: Names | None = None
    """The columns of the value, in this order. Default: all; with avro those that the schema has."""
    cursor: Text | None = None
    """A column that grows with every change: a time or a sequence, best with an index. Without it, all rows are read
    at each interval."""
    overlap: Duration = timedelta(minutes=1)
    """With a cursor: how far to go back, for changes that are committed late."""
    deletes_every: Duration = timedelta(minutes=5)
    """With a cursor: how often all keys are read, to find what was deleted; 0: never."""
    whole_every: Duration = timedelta(days=1)
    """With a cursor: how often all rows are read again; 0: never."""


class FileOrigin(Section):
    """A file."""

    path: SourceFile
    """A path, or an address that fsspec knows, such as `s3://bucket/users.csv`."""
    type: Annotated[FileType, one_of(FileType)] | None = None
    """`csv`, `json` (one object a line) or `parquet`. Default: what the path ends with."""
    key: Names
    """The columns of a unique key. Several make a composite key, in this order."""
    columns: ColumnList | None = None
    """The columns to read, with their types. Needed for json. Default: all: text in a csv file."""

    @property
    def kind(self) -> FileType | None:
        """The type that is given, else the one that the path ends with; None when it ends with none."""
        name = self.path.lower()
        for ending in (".gz", ".bz2", ".xz", ".zst", ".zip"):
            name = name.removesuffix(ending)
        endings = {"csv": FileType.csv, "json": FileType.json, "jsonl": FileType.json, "ndjson": FileType.json}
        return self.type or (endings | {"parquet": FileType.parquet}).get(name.rpartition(".")[2])


class Origin(Section):
    """Where rows come from. Exactly one of postgres and file."""

    postgres: PostgresOrigin | None = None
    """A PostgreSQL table or view."""
    file: FileOrigin | None = None
    """A CSV, JSON or Parquet file."""


class SyncSource(Encoded):
    """A route from an external system to a compacted topic."""

    topic: Topic
    """The compacted topic that the rows are written to. Nobody else writes to it."""
    from_: Origin = Field(alias="from")
    """Where the rows come from: exactly one of `postgres` and `file`."""
    interval: Duration = timedelta(seconds=10)
    """How often to look for changes."""
    delete_guard: Share = 0.2
    """The share of rows, 0 to 1, that may disappear at once; more are deleted only when a person confirms it."""
