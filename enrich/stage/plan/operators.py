"""The parts of a stage one after the other over a DataFrame: steps of workers, and columns that Spark evaluates between
them. Steps that follow each other become one Python operator."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sql
from pyspark.sql.functions import arrow_udf  # type: ignore[attr-defined] # missing in its stubs
from pyspark.sql.pandas.types import from_arrow_type

from enrich.stage.steps.step import Operator, Step
from enrich.stage.task.pin import Pin

_MADE = "_made"


@dataclass(frozen=True)
class BySpark:
    """Columns that Spark evaluates over the columns before them. They replace those of the same names."""

    columns: Mapping[str, Column]
    needs: Collection[str]

    def added(self, frame: DataFrame, needed: Collection[str]) -> DataFrame:
        """The needed columns of the frame, with these."""
        kept = [quoted(name) for name in frame.columns if name in needed and name not in self.columns]
        return frame.select(*kept, *(column.alias(name) for name, column in self.columns.items()))


Part = Step | BySpark


def applied(frame: DataFrame, parts: Sequence[Part], wanted: Collection[str], pin: Pin | None) -> DataFrame:
    """The wanted columns of the frame and of what the parts make."""
    groups = _grouped(parts)
    for index, group in enumerate(groups):
        needed = {*wanted, *(name for later in groups[index + 1 :] for part in later for name in part.needs)}
        first = group[0]
        if isinstance(first, BySpark):
            frame = first.added(frame, needed)
        else:
            steps = [part for part in group if not isinstance(part, BySpark)]
            frame = _operated(frame, Operator.of(steps, needed), needed, pin)
    return frame.select(*(quoted(name) for name in frame.columns if name in wanted))


def quoted(name: str) -> Column:
    """The column of exactly this name, even if it contains dots or backticks."""
    return sql.col(f"`{name.replace('`', '``')}`")


def _grouped(parts: Sequence[Part]) -> list[list[Part]]:
    groups: list[list[Part]] = []
    for part in parts:
        if isinstance(part, BySpark) and not part.columns:
            continue
        if groups and not isinstance(part, BySpark) and not isinstance(groups[-1][0], BySpark):
            groups[-1].append(part)
        else:
            groups.append([part])
    return groups


def _operated(frame: DataFrame, operator: Operator, needed: Collection[str], pin: Pin | None) -> DataFrame:
    """The UDF must be marked nondeterministic, which it is: otherwise Spark pushes down a filter on one of its fields
    and evaluates the UDF once more, at another seq."""
    kept = [quoted(name) for name in frame.columns if name in needed and name not in operator.outputs]
    udf = arrow_udf(_running(operator, pin), from_arrow_type(operator.kind)).asNondeterministic()
    made: Column = udf(*(quoted(name) for name in operator.inputs))
    # In columns at once: without generated code reading a field of a struct is expensive for Spark, and it would carry
    # the whole struct along.
    fields = [sql.col(_MADE).getField(name).alias(name) for name in operator.outputs]
    return frame.select(*kept, made.alias(_MADE)).select(*kept, *fields)


def _running(operator: Operator, pin: Pin | None) -> Callable[[Iterator[tuple[pa.Array, ...]]], Iterator[pa.Array]]:
    # With one argument Spark hands over arrays, not tuples of them.
    if len(operator.inputs) == 1:

        def run_one(batches: Iterator[pa.Array]) -> Iterator[pa.Array]:
            return operator.run(((array,) for array in batches), pin)

        return run_one

    def run(batches: Iterator[tuple[pa.Array, ...]]) -> Iterator[pa.Array]:
        return operator.run(batches, pin)

    return run
