"""The section `tables`: each a compacted topic, or an external source with a refresh interval, seen as key -> row."""

from collections.abc import Mapping
from datetime import timedelta
from enum import StrEnum
from pathlib import PurePath
from typing import Annotated, Any, ClassVar

from pydantic import Field, SerializerFunctionWrapHandler, model_serializer, model_validator

from enrich.config.types.columns import ColumnList
from enrich.config.types.encoding import Encoded
from enrich.config.types.fields import (
    Between,
    HeaderName,
    HttpUrl,
    LocalPath,
    Names,
    PostgresDsn,
    RedisUrl,
    Secret,
    Section,
    Text,
    Topic,
    fills_in,
    one_of,
)
from enrich.config.types.quantities import Duration, Size

ONLY_WITH_HTTP = ("headers", "token", "ca_file", "timeout", "largest")
FILE_ENDINGS = (".csv", ".json", ".jsonl", ".ndjson", ".parquet")
_FILE_FORMATS = {ending: "json" if "json" in ending else ending[1:] for ending in FILE_ENDINGS}

ONLY_WITH_TOPIC = ("compaction", "history", "freshness", "access")
ONLY_WITH_LOADER = ("refresh", "expire", "on_demand")
ONLY_ON_DEMAND = ("preload", "max_entries", "demand")


class KeyKind(StrEnum):
    exact = "exact"
    cidr = "cidr"


class Access(StrEnum):
    mapped = "mapped"
    rocks = "rocks"
    auto = "auto"


class Compaction(StrEnum):
    required = "required"
    any = "any"


class OnStale(StrEnum):
    wait = "wait"
    fail = "fail"
    mark = "mark"


class Then(StrEnum):
    fail = "fail"
    mark = "mark"


class Freshness(Section):
    """How old a table's answers may be, and what happens when they are older."""

    bound: Duration = timedelta(seconds=5)
    """How old an answer may be."""
    on_stale: Annotated[OnStale, one_of(OnStale)] = OnStale.mark
    """What happens when an answer is older: `wait` (at most until the deadline), `fail`, or `mark` the row as stale
    and continue."""
    deadline: Duration = timedelta(minutes=5)
    """How long a stage waits for the table: at its start, with `on_stale: wait` and with `on_miss: wait`."""
    then: Annotated[Then, one_of(Then)] = Then.mark
    """What happens if `on_stale: wait` reaches the deadline: `fail` or `mark`. Only with `wait`."""

    @model_serializer(mode="wrap")
    def _what_applies(self, serialize: SerializerFunctionWrapHandler) -> dict[str, Any]:
        values: dict[str, Any] = serialize(self)
        return {key: value for key, value in values.items() if key != "then" or self.on_stale == OnStale.wait}


class Loader(Section):
    """An external source: a small table, read again at an interval (one of redis, postgres and file), or one whose rows
    are loaded on demand (http)."""

    redis: RedisUrl | None = None
    """Address of a Redis server. Its values are the rows. The key of a row is the Redis key without the fixed
    beginning of `pattern`: with `limit:*` the value of `limit:acme` is the row of `acme`."""
    pattern: Text | None = None
    """With redis: which keys are read, as in Redis' `SCAN`. Default: all."""
    postgres: PostgresDsn | None = None
    """Address of a PostgreSQL database, as a URL or as `host=... password=...`."""
    table: Text | None = None
    """With postgres, and needed there: the table that is read."""
    file: LocalPath | None = None
    """A CSV, JSON (one object a line) or Parquet file on each host; its name ends with `.csv`, `.json`, `.jsonl`,
    `.ndjson` or `.parquet`."""
    key: Names | None = None
    """With postgres and file, and needed there: the columns that make the key. A column of a file that `columns` does
    not name is text."""
    http: HttpUrl | None = None
    """With `on_demand: true`: the address of one row, a JSON object, with `{key}` where its key goes."""
    headers: Mapping[HeaderName, Secret] = {}
    """With http: headers of the requests, such as API keys."""
    token: Secret | None = None
    """With http: sent as `Authorization: Bearer TOKEN`."""
    ca_file: LocalPath | None = None
    """With http: PEM file of the authorities that sign the endpoint's certificate. Default: the system's."""
    timeout: Duration = timedelta(seconds=5)
    """With http: how long an answer may take, from connecting to its last byte."""
    largest: Size = 2**20
    """With http: most bytes of an answer, after decompression."""

    @property
    def file_format(self) -> str | None:
        """csv, json or parquet, as the file's name ends; None for any other name, and without a file."""
        ending = "" if self.file is None else PurePath(self.file).suffix.lower()
        return _FILE_FORMATS.get(ending)

    @property
    def given(self) -> tuple[str, ...]:
        """Which of the sources the file names; a loader that follows the rules has one."""
        return tuple(name for name in ("redis", "postgres", "file", "http") if getattr(self, name) is not None)

    @model_serializer(mode="wrap")
    def _what_applies(self, serialize: SerializerFunctionWrapHandler) -> dict[str, Any]:
        values: dict[str, Any] = serialize(self)
        return {key: value for key, value in values.items() if self.http is not None or key not in ONLY_WITH_HTTP}


class Preload(Section):
    """Keys that are loaded before an on-demand table is ready. Exactly one of file and topic."""

    file: LocalPath | None = None
    """A text file on each host, with a key on each line."""
    topic: Topic | None = None
    """A topic: the keys of its records, but for those whose newest record is a tombstone."""


class Demand(Section):
    """How much one host asks of the source of an on-demand table."""

    per_second: Annotated[int, Between(1, 100_000)] = 500
    """Most requests in a second. More demand waits for its turn."""
    parallel: Annotated[int, Between(1, 200)] = 16
    """Most requests at a time."""


def _derived(data: Mapping[str, Any]) -> dict[str, Any]:
    """Defaults that follow from other keys."""
    loader = data.get("loader")
    rows = isinstance(loader, Mapping) and ({"postgres", "file", "http"} & loader.keys())
    # Rows of a database or a file have no encoding of their own; the agent keeps them as JSON.
    values: dict[str, Any] = {"format": "json"} if rows else {}
    if data.get("format") in ("bytes", "string"):
        values["columns"] = "value binary" if data["format"] == "bytes" else "value string"
    if loader is not None:
        values |= {"refresh": "2m", "expire": "30d"}
    return values


class Table(Encoded):
    """Key -> row, complete on every host. Exactly one of topic and loader says where the rows come from."""

    derived: ClassVar = {"format": "loader", "columns": "format"}

    topic: Topic | None = None
    """The compacted topic that the table mirrors."""
    loader: Loader | None = None
    """An external source instead of a topic: exactly one of `redis`, `postgres` and `file`, read at an interval, or
    `http` with `on_demand`."""
    columns: ColumnList
    """The columns of a row, as Spark writes them. Fields that are not named here are ignored. Default: for `bytes` and
    `string` one column of that type, `value`; else required."""
    key: Annotated[KeyKind, one_of(KeyKind)] = KeyKind.exact
    """`exact`, or `cidr`: keys are networks, found by the longest prefix."""
    compaction: Annotated[Compaction, one_of(Compaction)] = Compaction.required
    """`required`, or `any`: accept the topic even if its cleanup policy is not compact."""
    history: Duration = timedelta(0)
    """How long superseded versions are kept, for `as_of` and deterministic replay; 0: only the newest version is
    kept."""
    freshness: Freshness = Field(default_factory=Freshness)
    """How old answers may be, and what happens when they are older. Topics only, but for `deadline`, which tables on
    demand have too."""
    access: Annotated[Access, one_of(Access)] = Access.auto
    """`mapped` (in memory, shared by all workers), `rocks` (on disk), or `auto`: chosen by the memory budget
    (segments)."""
    refresh: Duration | None = None
    """Loaders only: how often the source is read again; on demand, from which age on a row that is used is loaded
    again. Default: `2m`."""
    expire: Duration | None = None
    """Loaders only: how long the last rows are served while the source cannot be read; more than `refresh`. Default:
    `30d`."""
    on_demand: bool = False
    """Loaders only, with http: rows are loaded when they are first looked up, each by its key. The table is not
    complete."""
    preload: Preload | None = None
    """On demand only: keys whose rows are there before the table is ready."""
    max_entries: Annotated[int, Between(1, 10_000_000)] = 100_000
    """On demand only: how many keys are kept, those included that have no row; beyond it those go that were used
    longest ago."""
    demand: Demand = Field(default_factory=Demand)
    """On demand only: how much one host asks of the source."""

    @model_validator(mode="before")
    @classmethod
    def _fill_in(cls, data: object) -> object:
        return fills_in(data, _derived)

    @model_serializer(mode="wrap")
    def _what_applies(self, serialize: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Without the defaults that mean nothing here, and that the rules would refuse if they were given."""
        values: dict[str, Any] = serialize(self)
        left_out: tuple[str, ...] = () if self.on_demand else ("on_demand", *ONLY_ON_DEMAND)
        if self.loader is not None:
            left_out = (*left_out, *ONLY_WITH_TOPIC)
        if self.on_demand and "freshness" in values:
            values["freshness"] = {key: each for key, each in values["freshness"].items() if key == "deadline"}
            left_out = tuple(name for name in left_out if name != "freshness")
        return {key: value for key, value in values.items() if key not in left_out}
