"""Users' Spark SQL expressions over the fields of an event: checked before the stage starts, and which fields they
name, since only those are parsed."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pyspark.errors import AnalysisException, ParseException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as sql
from pyspark.sql.types import (
    BinaryType,
    BooleanType,
    ByteType,
    DataType,
    IntegerType,
    LongType,
    NullType,
    ShortType,
    StringType,
    StructType,
    TimestampType,
)

from enrich.errors import ConfigError
from enrich.stage.order import part_name

_KEY_TYPES = (StringType, BinaryType, ByteType, ShortType, IntegerType, LongType, NullType)


@dataclass(frozen=True)
class Expression:
    """One expression and where the user wrote it."""

    text: str
    where: str


class Expressions:
    """Expressions over a schema. Raises ConfigError for one that Spark cannot resolve over it."""

    def __init__(self, spark: SparkSession, schema: StructType) -> None:
        self._empty = spark.createDataFrame([], schema)

    def key(self, parts: Sequence[Expression]) -> Column:
        """The key of a lookup: one column, a struct where it has several parts."""
        for part in parts:
            kind = self._type(part)
            if not isinstance(kind, _KEY_TYPES) and not (len(parts) > 1 and isinstance(kind, BooleanType)):
                raise ConfigError(
                    f"`{part.text}` is of type {kind.simpleString()}, which cannot be a key",
                    where=part.where,
                    next_step="cast it to string, binary or a whole number",
                )
        if len(parts) == 1:
            return sql.expr(parts[0].text)
        return sql.struct(*(sql.expr(part.text).alias(part_name(number)) for number, part in enumerate(parts)))

    def time(self, expression: Expression) -> Column:
        """An event's time."""
        kind = self._type(expression)
        if not isinstance(kind, TimestampType | NullType):
            raise ConfigError(
                f"`{expression.text}` is of type {kind.simpleString()}, and a timestamp is needed",
                where=expression.where,
                next_step="cast it: to_timestamp(...), timestamp_millis(...)",
            )
        return sql.expr(expression.text).cast("timestamp")

    def column(self, expression: Expression) -> Column:
        """A value of any type."""
        self._type(expression)
        return sql.expr(expression.text)

    def kind(self, expression: Expression) -> DataType:
        """The type of its values."""
        return self._type(expression)

    def fields(self, columns: Mapping[str, Column]) -> list[str]:
        """The fields of the schema that the columns name, in the schema's order."""
        names = _references(self._empty.select(*(column.alias(name) for name, column in columns.items())))
        return [field.name for field in self._empty.schema if field.name in names]

    def _type(self, expression: Expression) -> DataType:
        try:
            return self._empty.select(sql.expr(expression.text).alias("it")).schema["it"].dataType
        except (AnalysisException, ParseException) as error:
            fields = ", ".join(self._empty.columns)
            raise ConfigError(
                f"Spark cannot read `{expression.text}`: {_first_line(error)}",
                where=expression.where,
                next_step=f"the event's fields are {fields}" if fields else None,
            ) from error


def _references(selected: DataFrame) -> set[str]:
    # Spark's own answer, after it resolved the expressions: no parser of ours could know all of its syntax.
    found = selected._jdf.queryExecution().analyzed().references().iterator()
    names = set()
    while found.hasNext():
        names.add(str(found.next().name()))
    return names


def _first_line(error: Exception) -> str:
    return str(error).strip().splitlines()[0]
