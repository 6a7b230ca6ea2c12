"""The records that a stage writes back, made from its events, for the sync service or for another table. Each carries a
version, by which the sync service knows the newer of two records of a key, whatever their order in the topic; and the
release that made it, which decides between equal versions: a replay makes them again."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pyspark.sql import Column
from pyspark.sql import functions as sql
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    ByteType,
    DataType,
    DateType,
    IntegerType,
    LongType,
    MapType,
    NullType,
    ShortType,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from enrich.base.errors import ConfigError
from enrich.config import Writeback
from enrich.kafka.identity import RELEASE, VERSION
from enrich.stage.formats.event_format import KAFKA, brought_release
from enrich.stage.formats.json_events import json_text
from enrich.stage.plan.expressions import Expression, Expressions
from enrich.stage.plan.leaving.rows import Row
from enrich.stage.progress.source_versions import SourceVersions
from enrich.stage.steps.leaving.headers import OVERHEAD
from enrich.stage.task.failures import MARK
from stores.versions import LARGEST_VERSION, OFFSETS_OF_A_GENERATION

CAUSE_HEADER = "enrich.cause"
_OWN_HEADERS = 192
"""Largest size of these headers, in bytes."""

RECORD = "_writeback"
_ASKED = "_writeback_asked"
_WHOLE = (ByteType, ShortType, IntegerType, LongType)
# Hex codes with letters, of the characters that JSON requires to be escaped. As in the keys of look-ups, no others are.
_WITH_LETTERS = tuple(f"{code:04X}" for code in range(0x20) if f"{code:X}" != f"{code:x}")
_NEEDS_ESCAPE = r'["\\\x00-\x1f]'


@dataclass(frozen=True)
class WritebackRows:
    """Made by `writeback_rows`. `columns` and `record` compute everything while the event has its fields, the rest
    reads that."""

    topic: str
    asked: Column
    """A struct of the users' expressions over the event's fields; null if one of them fails."""
    parts: Sequence[Column]
    """Key, value and version. Those that are users' expressions are read from `_ASKED`."""
    source: SourceVersions | None
    """What makes the events' offsets comparable. None if a version is declared."""
    largest: int
    release: int = 0
    """0: the records carry none."""

    @property
    def columns(self) -> Mapping[str, Column]:
        """What is evaluated over the event's fields."""
        return {_ASKED: self.asked}

    @property
    def record(self) -> Mapping[str, Column]:
        """The column `RECORD`, made of that."""
        key, value, version = self.parts
        failed = sql.col(_ASKED).isNull().alias("failed")
        return {RECORD: sql.struct(key.alias("key"), value.alias("value"), version.alias("version"), failed)}

    @property
    def problem(self) -> Column:
        """Why the record cannot be written. Null if it can, or if there is none to write."""
        version, size = sql.col(RECORD)["version"], self._size()
        is_version = sql.coalesce(version.between(0, LARGEST_VERSION), sql.lit(False))
        # Without this check a value that cannot be computed would become a tombstone.
        failed = sql.when(sql.col(RECORD)["failed"], "an expression of the write-back cannot be computed")
        return failed.when(
            self.is_there,
            sql.when(~is_version, f"the write-back's version is null, or not between 0 and {LARGEST_VERSION}").when(
                size > self.largest, "the record to write back is too large for its topic"
            ),
        )

    @property
    def is_there(self) -> Column:
        """An event whose write-back key is null has nothing to write back."""
        return sql.col(RECORD)["key"].isNotNull()

    def row(self, wanted: Column) -> Row:
        record = sql.col(RECORD)
        headers = {VERSION: record["version"].cast("string"), CAUSE_HEADER: self._cause()}
        if self.release:
            release = sql.greatest(brought_release(), sql.lit(self.release))  # an event's own may be higher
            headers[RELEASE] = release.cast("string")
        return Row(
            wanted=wanted & self.is_there,
            topic=sql.lit(self.topic),
            key=record["key"],
            value=record["value"],
            headers=sql.array(
                *(
                    sql.struct(sql.lit(name).alias("key"), value.cast("binary").alias("value"))
                    for name, value in headers.items()
                )
            ),
        )

    def _cause(self) -> Column:
        topic = sql.col(KAFKA.topic) if self.source is None else sql.lit(self.source.topic_id)
        return sql.concat_ws("/", topic, sql.col(KAFKA.partition).cast("string"), sql.col(KAFKA.offset).cast("string"))

    def _size(self) -> Column:
        record = sql.col(RECORD)
        lengths = (sql.coalesce(sql.length(record[name]), sql.lit(0)) for name in ("key", "value"))
        return sum(lengths, start=sql.lit(OVERHEAD + _OWN_HEADERS))


def writeback_rows(
    section: Writeback,
    expressions: Expressions,
    source: SourceVersions | None,
    largest: int,
    where: str,
    *,
    release: int = 0,
) -> WritebackRows:
    """`source` is not needed if the section declares a version. Raises ConfigError for expressions that Spark cannot
    resolve, or whose type does not fit their use."""
    keys = [Expression(text, f"{where}key") for text in section.key or ()]
    value = Expression(section.value, f"{where}value")
    asked = {_part(number): key for number, key in enumerate(keys)} | {"value": value}
    if section.version is not None:
        asked["version"] = Expression(section.version, f"{where}version")
    elif source is None:
        raise ConfigError("a write-back without a version needs what is known of the source's topic", where=where)
    columns = (
        _key(expressions, keys) if keys else sql.col(KAFKA.key),
        _value(expressions.kind(value)),
        _declared(expressions, asked["version"]) if source is None or section.version else _of_source(source),
    )
    own_source = source if section.version is None else None
    return WritebackRows(section.topic, expressions.together(asked), columns, own_source, largest, release)


def _part(number: int) -> str:
    return f"key_{number}"


def _of(name: str) -> Column:
    return sql.col(_ASKED)[name]


def _key(expressions: Expressions, parts: Sequence[Expression]) -> Column:
    """A key in the form of tables: text or bytes, a compact JSON array if it has several parts. Null if a part is."""
    expressions.key(parts)
    columns = [(_of(_part(number)), expressions.kind(part)) for number, part in enumerate(parts)]
    if len(columns) == 1:
        ((column, kind),) = columns
        return column if isinstance(kind, BinaryType) else column.cast("string").cast("binary")
    separated = [piece for column, kind in columns for piece in (sql.lit(","), _json_part(column, kind))][1:]
    return sql.concat(sql.lit("["), *separated, sql.lit("]")).cast("binary")


def _json_part(column: Column, kind: DataType) -> Column:
    if isinstance(kind, (*_WHOLE, BooleanType)):
        return column.cast("string")
    text = column.cast("string")
    in_brackets = sql.to_json(sql.array(text))
    escaped = _in_lower_case(sql.substring(in_brackets, sql.lit(2), sql.length(in_brackets) - 2))
    plain = sql.concat(sql.lit('"'), text, sql.lit('"'))
    return sql.when(text.isNotNull(), sql.when(text.rlike(_NEEDS_ESCAPE), escaped).otherwise(plain))


def _in_lower_case(text: Column) -> Column:
    r"""JSON text with `\u001f` for `\u001F`, as look-ups and most programs write it."""
    for digits in _WITH_LETTERS:
        # An escaped backslash does not start an escape sequence.
        text = sql.regexp_replace(text, rf"(?<!\\)((?:\\\\)*)\\u{digits}", rf"$1\\u{digits.lower()}")
    return text


def _value(kind: DataType) -> Column:
    column = _of("value")
    if isinstance(kind, BinaryType):
        return column
    if isinstance(kind, StructType | MapType | ArrayType):
        return json_text(column).cast("binary")
    return column.cast("string").cast("binary")


def _declared(expressions: Expressions, expression: Expression) -> Column:
    """A declared version as the number that the sync service compares: times in microseconds, dates in days."""
    column, kind = _of("version"), expressions.kind(expression)
    if isinstance(kind, TimestampType | TimestampNTZType):
        return sql.unix_micros(column.cast("timestamp"))
    if isinstance(kind, DateType):
        return sql.unix_date(column).cast("bigint")
    if isinstance(kind, (*_WHOLE, NullType)):
        return column.cast("bigint")
    raise ConfigError(
        f"`{expression.text}` is of type {kind.simpleString()}, which cannot be a version",
        where=expression.where,
        next_step="cast it to a whole number, a date or a timestamp",
    )


def _of_source(source: SourceVersions) -> Column:
    """A version made from the event's offset. If a partition was added since the stage started, keys have moved to it
    whose old offsets do not compare with its own: the stage fails, and its next start begins the next generation."""
    partition, offset = sql.col(KAFKA.partition), sql.col(KAFKA.offset)
    starts = sql.array(*(sql.lit(start).cast("bigint") for start in source.starts))
    generation = sql.lit(source.generation) - (offset < sql.get(starts, partition)).cast("bigint")
    error = {
        "kind": "Retryable",
        "what": "the topic of the events has more partitions than when the stage was started, and its write-back has "
        "to begin a new generation of versions",
        "where": f"topic {source.topic}",
        "next_step": "start the stage again",
    }
    grown = sql.raise_error(sql.lit(MARK + json.dumps(error))).cast("bigint")
    version = generation * sql.lit(OFFSETS_OF_A_GENERATION) + offset
    return sql.when(partition < len(source.starts), version).otherwise(grown)
