"""The records that a stage makes from an event, each for one topic."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sql

from enrich.stage.formats.event_format import HEADERS_TYPE


@dataclass(frozen=True)
class Row:
    """A record for Spark's Kafka sink. The event makes it only if `wanted` is true."""

    wanted: Column
    topic: Column
    key: Column
    value: Column
    headers: Column


Alternatives = Sequence[Row]
"""Rows of which an event makes at most one: the first that is wanted."""


def fanned_out(events: DataFrame, rows: Sequence[Alternatives], *, each_makes_one: bool = False) -> DataFrame:
    """The records of all events. It must not be a union, which would read the events and evaluate the lookups once for
    each row. `each_makes_one`: each event wants a row of the first alternatives, and there are no others."""
    if len(rows) == 1:
        (alternatives,) = rows
        wanting = events if each_makes_one else events.where(_any_wanted(alternatives))
        return wanting.select(*_fields(alternatives))
    records = (sql.when(_any_wanted(each), sql.struct(*_fields(each))) for each in rows)
    return events.select(sql.explode(sql.array_compact(sql.array(*records))).alias("record")).select("record.*")


def _any_wanted(alternatives: Alternatives) -> Column:
    wanted = alternatives[0].wanted
    for row in alternatives[1:]:
        wanted = wanted | row.wanted
    return wanted


def _fields(alternatives: Alternatives) -> list[Column]:
    return [
        _chosen(alternatives, lambda row: row.topic).alias("topic"),
        _chosen(alternatives, lambda row: row.key).alias("key"),
        _chosen(alternatives, lambda row: row.value).alias("value"),
        _chosen(alternatives, lambda row: row.headers.cast(HEADERS_TYPE)).alias("headers"),
    ]


def _chosen(alternatives: Alternatives, part: Callable[[Row], Column]) -> Column:
    *others, last = alternatives
    column = part(last)
    for row in reversed(others):
        column = sql.when(row.wanted, part(row)).otherwise(column)
    return column
