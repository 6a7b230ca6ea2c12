"""Users' Spark SQL expressions over the fields of an event. They are checked before the stage starts, and only the
fields that they name are parsed."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

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

from enrich.base.errors import ConfigError
from enrich.stage.compute import Compiled, Compiler, NotCompiled
from enrich.stage.plan.tried import classes_of, tried
from enrich.stage.task.spec import part_name

# Spark calls them deterministic, since it replaces them by constants; but each attempt gets another time.
_TIME_OR_PLACE = frozenset(
    {"CurrentDate", "CurrentTime", "CurrentTimestamp", "CurrentUser", "LocalTimestamp", "Now", "SparkVersion"}
)
_KEY_TYPES = (StringType, BinaryType, ByteType, ShortType, IntegerType, LongType, NullType)


@dataclass(frozen=True)
class Expression:
    """One expression and where the user wrote it."""

    text: str
    where: str


class Expressions:
    """Expressions over a schema. If one fails for an event its value is null. Raises ConfigError for an expression that
    Spark cannot resolve, and with `repeatable` also for one whose value may change when a batch is repeated."""

    def __init__(self, spark: SparkSession, schema: StructType, *, repeatable: bool = False) -> None:
        self._spark = spark
        self._empty = spark.createDataFrame([], schema)
        self._repeatable = repeatable
        self._known: dict[str, DataFrame] = {}
        """Each text that was asked about: Spark takes tens of milliseconds to analyse one."""

    def key(self, parts: Sequence[Expression]) -> Column:
        """The key of a lookup: one column, a struct if the key has several parts."""
        for part in parts:
            kind = self.kind(part)
            if not isinstance(kind, _KEY_TYPES) and not (len(parts) > 1 and isinstance(kind, BooleanType)):
                raise ConfigError(
                    f"`{part.text}` is of type {kind.simpleString()}, which cannot be a key",
                    where=part.where,
                    next_step="cast it to string, binary or a whole number",
                )
            if len(parts) > 1 and isinstance(kind, BinaryType):
                raise ConfigError(
                    f"`{part.text}` is binary, and the parts of a composite key are text, whole numbers or booleans",
                    where=part.where,
                    next_step="cast it to string",
                )
        if len(parts) == 1:
            return self._column(parts[0])
        return sql.struct(*(self._column(part).alias(part_name(number)) for number, part in enumerate(parts)))

    def time(self, expression: Expression) -> tuple[str, Column]:
        """An event's time, as a timestamp, with the text of the expression that makes it one. A bigint is milliseconds
        since 1970, as it is for ingest."""
        kind, text = self.kind(expression), expression.text
        if isinstance(kind, LongType):
            text = f"timestamp_millis({text})"
        elif not isinstance(kind, TimestampType | NullType):
            raise ConfigError(
                f"`{expression.text}` is of type {kind.simpleString()}, and a timestamp or a bigint is needed",
                where=expression.where,
                next_step="cast it: to_timestamp(...) of text",
            )
        return text, self._column(Expression(text, expression.where)).cast("timestamp")

    def value(self, expression: Expression) -> Column:
        """A value of any type."""
        return self._column(expression)

    def condition(self, expression: Expression) -> Column:
        """True or false: false for an event for which it is null or fails."""
        kind = self.kind(expression)
        if not isinstance(kind, BooleanType | NullType):
            raise ConfigError(
                f"`{expression.text}` is of type {kind.simpleString()}, and a condition is true or false",
                where=expression.where,
            )
        return sql.coalesce(self._column(expression).cast("boolean"), sql.lit(False))

    def together(self, expressions: Mapping[str, Expression]) -> Column:
        """A struct of values of any types, by name. The whole struct is null if one of them fails."""
        struct = sql.struct(*(sql.expr(each.text).alias(name) for name, each in expressions.items()))
        classes = (classes_of(self._resolved(each)) for each in expressions.values())
        return tried(struct, frozenset().union(*classes))

    @property
    def names(self) -> Sequence[str]:
        """The fields of the schema."""
        return self._empty.columns

    def compiled(self, text: str) -> Compiled | NotCompiled:
        """The expression as workers evaluate it, or why they cannot. It must be one that Spark can read."""
        return self._compiler.compile(text)

    @cached_property
    def _compiler(self) -> Compiler:
        return Compiler(self._spark, self._empty.schema)

    def kind(self, expression: Expression) -> DataType:
        """The type of the expression's values."""
        return self._selected(expression).schema["it"].dataType

    def fields(self, columns: Mapping[str, Column]) -> list[str]:
        """The fields of the schema that the columns name, in the schema's order."""
        if not columns:
            return []
        names = _references(self._empty.select(*(column.alias(name) for name, column in columns.items())))
        return [field.name for field in self._empty.schema if field.name in names]

    def _column(self, expression: Expression) -> Column:
        return tried(sql.expr(expression.text), classes_of(self._resolved(expression)))

    def _resolved(self, expression: Expression) -> Any:
        plan = _analyzed(self._selected(expression))
        if self._repeatable and (not plan.deterministic() or classes_of(plan) & _TIME_OR_PLACE):
            raise ConfigError(
                f"`{expression.text}` may have another value when a batch is repeated, and replay: deterministic "
                "promises the same records",
                where=expression.where,
                next_step="use a field of the event instead of the current time or a random value, or choose "
                "replay: latest",
            )
        return plan

    def _selected(self, expression: Expression) -> DataFrame:
        known = self._known.get(expression.text)
        if known is not None:
            return known
        try:
            selected = self._known[expression.text] = self._empty.select(sql.expr(expression.text).alias("it"))
        except (AnalysisException, ParseException) as error:
            fields = ", ".join(self._empty.columns)
            raise ConfigError(
                f"Spark cannot read `{expression.text}`: {_first_line(error)}",
                where=expression.where,
                next_step=f"the event's fields are {fields}" if fields else None,
            ) from error
        return selected


def _references(selected: DataFrame) -> set[str]:
    # From the plan that Spark resolved: a parser of ours could not know all of Spark's syntax.
    found = _analyzed(selected).references().iterator()
    names = set()
    while found.hasNext():
        names.add(str(found.next().name()))
    return names


def _analyzed(selected: DataFrame) -> Any:
    jdf: Any = selected._jdf
    return jdf.queryExecution().analyzed()


def _first_line(error: Exception) -> str:
    return str(error).strip().splitlines()[0]
