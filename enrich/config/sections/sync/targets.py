"""Where a write-back route writes to: `to: {redis: ...}` or `to: {postgres: ...}`."""

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Annotated

from pydantic import Field

from enrich.config.types.fields import Between, Flag, Names, PostgresDsn, RedisUrl, Section, Text, one_of
from enrich.config.types.quantities import Duration

RELEASE_COLUMN = "release"


class RedisForm(StrEnum):
    hash = "hash"
    json = "json"


class Delete(StrEnum):
    soft = "soft"
    hard = "hard"


class Output(Section):
    """How rows are written, whatever the store is."""

    batch: Annotated[int, Between(1, 50_000)] = 5_000
    """How many rows to write at once at most; fewer while the store is slow."""
    timeout: Duration | None = None
    """How long a write may take, 1s to 2m; what takes longer is tried again in smaller pieces."""
    parallel: Annotated[int, Between(1, 16)] = 1
    """How many connections each instance writes over in parallel."""


class RedisTarget(Output):
    """A Redis server, the servers of a cluster, or what sentinels watch."""

    url: RedisUrl
    """Address of the server, of a node of the cluster, or of a sentinel."""
    key: Text = "{key}"
    """Template of the keys; `{key}` stands for the record's key."""
    as_: Annotated[RedisForm, one_of(RedisForm)] = Field(default=RedisForm.hash, alias="as")
    """`hash`: one field for each column, and `_version`. `json`: one text, an object that begins with `_version`."""
    ttl: Duration | None = None
    """How long a row stays after its last write. Default: forever."""
    cluster: Flag = False
    """The url names a node of a Redis cluster."""
    sentinel: Text | None = None
    """The url is a sentinel's; this is the name of the master that it watches."""


class PostgresTarget(Output):
    """A table of a PostgreSQL database."""

    dsn: PostgresDsn
    """Address of the database."""
    table: Text
    """The table, with its schema if that is not on the search path."""
    key: Names
    """The columns of its primary key or of a unique constraint, in the order of the key's parts."""
    columns: Mapping[Text, Text] | None = None
    """Which column of the row fills which column of the table, as `table column: row column`. Default: all, by their
    own names."""
    delete: Annotated[Delete, one_of(Delete)] = Delete.soft
    """What a tombstone does: `soft` marks the row as deleted, `hard` removes it."""
    version_column: Text = "version"
    """The bigint column for the row's version."""
    deleted_column: Text = "deleted"
    """With `delete: soft`, the boolean column for the mark."""
    release_column: Text | None = None
    """The bigint column for the row's release. Default: `release` if the pipeline has a `release`, else there is none,
    and releases are not compared."""

    def release_column_of(self, release: int) -> str | None:
        """`release`: the pipeline's. None: there is none."""
        return self.release_column or (RELEASE_COLUMN if release else None)

    def columns_of(self, names: Sequence[str], release: int) -> Mapping[str, str]:
        """Which column of the row (it has `names`) fills which column of the table."""
        if self.columns is not None:
            return self.columns
        deleted = self.deleted_column if self.delete == Delete.soft else None
        own = {*self.key, self.version_column, deleted, self.release_column_of(release)}
        return {name: name for name in names if name not in own}


class Target(Section):
    """The external store. Exactly one of redis and postgres."""

    redis: RedisTarget | None = None
    """Keys in Redis."""
    postgres: PostgresTarget | None = None
    """Rows of a PostgreSQL table. The table is yours: the service checks it and never alters it."""
