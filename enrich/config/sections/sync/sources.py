"""The section `sync.sources`: each makes an external system's rows the records of a compacted topic."""

import re
from collections.abc import Mapping
from datetime import timedelta
from enum import StrEnum
from typing import Annotated

from pydantic import BeforeValidator, Field, WithJsonSchema

from enrich.config.messages.words import Substituted, Wrong, shown
from enrich.config.types.columns import ColumnList
from enrich.config.types.encoding import Encoded
from enrich.config.types.fields import (
    TOPIC_PATTERN,
    HeaderName,
    HttpUrl,
    LocalPath,
    Matching,
    Names,
    Patterns,
    PostgresDsn,
    RedisUrl,
    Secret,
    Section,
    SourceFile,
    Text,
    one_of,
)
from enrich.config.types.quantities import Duration, Size

_POINTER = r"^(/([^~/]|~0|~1)*)*$"
_NEXT = r"^(link|page|offset|(/([^~/]|~0|~1)*)+)$"


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


class Follow(StrEnum):
    cursor = "cursor"
    log = "log"


class PostgresOrigin(Section):
    """A PostgreSQL table or view."""

    dsn: PostgresDsn
    """Address of the database."""
    table: Text | None = None
    """The table or view, with its schema if that is not on the search path. Either this or `tables`."""
    tables: Patterns | None = None
    """With `follow: log`: patterns of tables with their schemas, such as `app.*`. Each table has a topic of its own;
    its primary key is the key."""
    key: Names | None = None
    """The columns of a unique key. Several make a composite key, in this order. Needed with `table`."""
    columns: Names | None = None
    """The columns of the value, in this order. Default: all; with avro those that the schema has."""
    follow: Annotated[Follow, one_of(Follow)] = Follow.cursor
    """How changes are found: `cursor` asks the table at each interval, `log` follows the database's change log
    (PostgreSQL 14 and later, `wal_level = logical`)."""
    slot: Annotated[str, Matching(r"^[a-z0-9_]{1,63}$", "a name of small letters, digits and _")] | None = None
    """With `follow: log`: the name of the replication slot and of the publication. Default:
    `enrich_<pipeline>_<source>`."""
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


class HttpOrigin(Section):
    """JSON from an HTTP endpoint, in one answer or in pages."""

    url: HttpUrl
    """Address of the rows, or of their first page."""
    key: Names
    """The columns of a unique key. Several make a composite key, in this order."""
    columns: ColumnList
    """The columns to read, with their types. Other members of the rows are left out."""
    rows: Annotated[str, Matching(_POINTER, "a JSON pointer such as /data/items")] = ""
    """JSON pointer to the array of rows. Default: the answer is the array, or has an object a line."""
    next: Annotated[str, Matching(_NEXT, "link, page, offset, or a JSON pointer such as /next")] | None = None
    """How the page that follows is found: `link` (the header Link), `page` or `offset` (a parameter that grows, until a
    page is empty), or a JSON pointer to its address. Default: there is only one."""
    parameter: Text | None = None
    """The parameter of `page` or `offset`, if it has another name; with a pointer: what is there is no address, but a
    word that is sent in this parameter."""
    headers: Mapping[HeaderName, Secret] = {}
    """Headers of the requests, such as API keys."""
    token: Secret | None = None
    """Sent as `Authorization: Bearer TOKEN`."""
    ca_file: LocalPath | None = None
    """PEM file of the authorities that sign the endpoint's certificate. Default: the system's."""
    timeout: Duration = timedelta(seconds=30)
    """How long an answer may take, from connecting to its last byte."""
    largest: Size = 64 * 2**20
    """Most bytes of an answer, after decompression."""


class RedisType(StrEnum):
    hash = "hash"
    json = "json"
    string = "string"


class RedisOrigin(Section):
    """Keys of a Redis server."""

    url: RedisUrl
    """Address of the server."""
    pattern: Text
    """Which keys are rows, such as `limit:*`. What the pattern begins with is cut off the record's key."""
    as_: Annotated[RedisType, one_of(RedisType)] = Field(default=RedisType.hash, alias="as")
    """`hash`: a field for each column. `json`: a text with an object. `string`: a text, the column `value`."""
    columns: ColumnList | None = None
    """The columns to read, with their types. Needed but for strings."""
    notifications: bool = False
    """Whether Redis tells which keys are written, so that changes are seen at once and not only at each `interval`. The
    server needs `notify-keyspace-events KA`."""


class Origin(Section):
    """Where rows come from. Exactly one of postgres, file, http and redis."""

    postgres: PostgresOrigin | None = None
    """A PostgreSQL table or view."""
    file: FileOrigin | None = None
    """A CSV, JSON or Parquet file."""
    http: HttpOrigin | None = None
    """JSON from an HTTP endpoint."""
    redis: RedisOrigin | None = None
    """Keys of a Redis server."""

    @property
    def given(self) -> Mapping[str, Section]:
        return {name: origin for name in type(self).model_fields if (origin := getattr(self, name)) is not None}


TABLE_PARTS = ("{schema}", "{table}")
"""What stands for a table's name in the topic of a source with `tables`."""
_PARTS = r"^(?=.{1,249}$)([A-Za-z0-9._-]|\{schema\}|\{table\})+$"


def topic_of_table(template: str, schema: str, table: str) -> str | None:
    """None if the names make no topic of Kafka's."""
    parts = dict(zip(TABLE_PARTS, (schema, table), strict=True))
    topic = re.sub(r"\{schema\}|\{table\}", lambda match: parts[match[0]], template)
    return topic if re.fullmatch(TOPIC_PATTERN, topic) else None


def tables_topic(pipeline: str, source: str) -> str:
    """Where a source with `tables` keeps what it knows of each."""
    return f"{pipeline}.{source}.tables"


def slot_name(pipeline: str, source: str) -> str:
    """The default. PostgreSQL takes 63 small letters, digits and underscores."""
    return re.sub(r"[^a-z0-9_]", "_", f"enrich_{pipeline}_{source}".lower())[:63]


class SyncSource(Encoded):
    """A route from an external system to a compacted topic."""

    topic: Annotated[str, Matching(_PARTS, "a topic name, or with `tables` one with {schema} and {table} in it")]
    """The compacted topic that the rows are written to. Nobody else writes to it. With `tables` a name with `{schema}`
    and `{table}` in it, such as `cdc.{schema}.{table}`."""
    from_: Origin = Field(alias="from")
    """Where the rows come from: exactly one of `postgres`, `file`, `http` and `redis`."""
    interval: Duration = timedelta(seconds=10)
    """How often to look for changes."""
    delete_guard: Share = 0.2
    """The share of rows, 0 to 1, that may disappear at once; more are deleted only when a person confirms it."""

    @property
    def has_many_tables(self) -> bool:
        return self.from_.postgres is not None and self.from_.postgres.tables is not None
