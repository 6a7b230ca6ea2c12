"""The one Python operator of a stage whose JSON events are joined whole: events in, enriched events out.

Where all keys are plain fields Spark has nothing to evaluate, and reading and writing JSON in columns takes a fraction
of what the JVM takes a row at a time; more than carrying the payload there and back costs (ADR 0037).
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sql
from pyspark.sql.functions import arrow_udf  # type: ignore[attr-defined] # missing in its stubs
from pyspark.sql.pandas.types import from_arrow_type

from enrich.config import Columns, Stage
from enrich.stage.answers import Answers
from enrich.stage.event_fields import EventFields
from enrich.stage.events import KAFKA, USABLE
from enrich.stage.joining import ANSWER
from enrich.stage.operator import task_answers
from enrich.stage.order import OUTCOME, Order
from enrich.stage.outcome import Outcome
from enrich.stage.pin import Pin

OUTPUT = "_output"
_LARGEST_BYTES = 1_000
"""Of a typical event: with more, to carry it to Python and back costs as much as it spares (ADR 0037)."""

_SIMPLE = (pa.types.is_boolean, pa.types.is_integer, pa.types.is_string, pa.types.is_date)


@dataclass(frozen=True)
class WholeEvents:
    """Made by `whole_events`; travels with the tasks."""

    order: Order
    keys: Sequence[Sequence[str]]
    """Of each lookup, the fields that its key consists of."""
    fields: Columns
    """All of them."""

    def answered(self, events: DataFrame, pin: Pin | None = None) -> DataFrame:
        """The events, as `KAFKA` has them, with `USABLE`, the columns of their outcome, and as `OUTPUT` the enriched
        events; null for those that are not forwarded."""
        answered = events.select("*", self._column(pin).alias(ANSWER))
        answer = sql.col(ANSWER)
        outcome = Outcome(self.order.lookups, lambda name: answer[name])
        return answered.select(
            *KAFKA.columns, answer[USABLE].alias(USABLE), answer[OUTPUT].alias(OUTPUT), *outcome.apart()
        )

    def _column(self, pin: Pin | None) -> Column:
        udf = arrow_udf(_enriching(self, task_answers, pin), from_arrow_type(self.kind)).asNondeterministic()
        column: Column = udf(sql.col(KAFKA.value), sql.col(KAFKA.timestamp))
        return column

    @property
    def kind(self) -> pa.StructType:
        """Of what the operator gives back for each event."""
        outcome = [self.order.answer_type.field(name) for name in OUTCOME]
        return pa.struct([pa.field(USABLE, pa.bool_()), pa.field(OUTPUT, pa.binary()), *outcome])


def whole_events(stage: Stage, order: Order, fields: Sequence[str]) -> WholeEvents | None:
    """Of a stage that does not need Spark for them, see `why_evaluated`; None where they have no columns."""
    columns = stage.source.schema_
    if not isinstance(columns, Columns):
        return None
    return WholeEvents(order, [lookup.keys for lookup in order.lookups], columns.select(fields))


def why_evaluated(stage: Stage, order: Order, fields: Sequence[str], event_bytes: Callable[[], int]) -> str | None:
    """For what Spark has to evaluate the events of a stage; None where it need not. `fields`: those that the stage's
    expressions name, as Spark says. `event_bytes`: of a typical event, 0 where that is not known; asked last."""
    columns = stage.source.schema_
    if not isinstance(columns, Columns):
        return f"the events are {stage.source.format}"
    if not order.lookups:
        return "there is nothing to look up"
    if stage.writeback is not None:
        return "it writes back"
    if order.needs_times and stage.event_time is not None:
        # Even one that names no field of its own: workers have only the time that Kafka has of the record.
        return "the event_time is needed"
    if {name for lookup in order.lookups for name in lookup.keys} != set(fields):
        return "a key is an expression or a field that is not plain"
    for field in columns.select(fields).arrow:
        if not EventFields.can_read_alone(field.type):
            return f"the field {field.name} is neither text nor a whole number"
    for lookup in order.lookups:
        if not _is_written_alike(lookup.kind):
            return f"the table {lookup.table} has columns that only Spark writes: select others"
    if (typical := event_bytes()) > _LARGEST_BYTES:
        return f"its events are large: {typical} bytes"
    return None


def _enriching(
    whole: WholeEvents, begin: Callable[[Order, Pin | None], Answers], pin: Pin | None
) -> Callable[[Iterator[tuple[pa.Array, ...]]], Iterator[pa.Array]]:
    def enrich(batches: Iterator[tuple[pa.Array, ...]]) -> Iterator[pa.Array]:
        # Imported by the worker, when it has a task: the driver writes no JSON.
        from enrich.stage.enriching import Enriching

        enriching = Enriching(whole, begin(whole.order, pin))
        return (enriching.enriched(values, times) for values, times in batches)

    return enrich


def _is_written_alike(kind: pa.DataType) -> bool:
    """Whether workers write such values as Spark does."""
    if pa.types.is_struct(kind) or pa.types.is_list(kind):
        return all(_is_written_alike(kind.field(index).type) for index in range(kind.num_fields))
    return any(is_simple(kind) for is_simple in _SIMPLE)
