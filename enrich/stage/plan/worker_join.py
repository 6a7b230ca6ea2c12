"""The one Python operator of a stage whose workers get whole JSON events: events in, enriched events out.

If all keys are plain fields Spark has nothing to evaluate. Reading and writing JSON in columns takes a fraction of what
the JVM needs row by row; that saves more than it costs to carry the payload to Python and back (ADR 0037).
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sql
from pyspark.sql.functions import arrow_udf  # type: ignore[attr-defined] # missing in its stubs
from pyspark.sql.pandas.types import from_arrow_type

from enrich.config import Columns, Stage
from enrich.stage.events.events import KAFKA
from enrich.stage.events.fields import EventFields
from enrich.stage.plan.joining import ANSWER
from enrich.stage.plan.jvm_join import task_answers
from enrich.stage.plan.outcome import Outcome
from enrich.stage.task.pin import Pin
from enrich.stage.task.spec import TaskSpec
from enrich.stage.task.whole import OUTPUT, USABLE, WholeSpec

_LARGEST_BYTES = 1_000
"""Limit for a typical event: carrying a larger one to Python and back costs as much as it saves (ADR 0037)."""

_SIMPLE = (pa.types.is_boolean, pa.types.is_integer, pa.types.is_string, pa.types.is_date)


@dataclass(frozen=True)
class WorkerJoin:
    """Made by `worker_join`."""

    spec: WholeSpec

    def answered(self, events: DataFrame, pin: Pin | None = None) -> DataFrame:
        """The events' `KAFKA` columns with `USABLE`, the outcome columns, and as `OUTPUT` the enriched events, which is
        null for events that are not forwarded."""
        answered = events.select("*", self._column(pin).alias(ANSWER))
        answer = sql.col(ANSWER)
        outcome = Outcome(self.spec.task.lookups, lambda name: answer[name])
        return answered.select(
            *KAFKA.columns, answer[USABLE].alias(USABLE), answer[OUTPUT].alias(OUTPUT), *outcome.apart()
        )

    def _column(self, pin: Pin | None) -> Column:
        udf = arrow_udf(_enriching(self.spec, pin), from_arrow_type(self.spec.kind)).asNondeterministic()
        column: Column = udf(sql.col(KAFKA.value), sql.col(KAFKA.timestamp))
        return column


def worker_join(stage: Stage, spec: TaskSpec, fields: Sequence[str]) -> WorkerJoin | None:
    """For a stage whose events Spark need not evaluate, see `why_evaluated`. None if the events have no columns."""
    columns = stage.source.schema_
    if not isinstance(columns, Columns):
        return None
    return WorkerJoin(WholeSpec(spec, [lookup.keys for lookup in spec.lookups], columns.select(fields)))


def why_evaluated(stage: Stage, spec: TaskSpec, fields: Sequence[str], event_bytes: Callable[[], int]) -> str | None:
    """Why Spark has to evaluate the events of a stage; None if it need not. `fields`: those that the stage's
    expressions name, as Spark resolved them. `event_bytes`: size of a typical event, 0 if unknown; called last."""
    columns = stage.source.schema_
    if not isinstance(columns, Columns):
        return f"the events are {stage.source.format}"
    if not spec.lookups:
        return "there is nothing to look up"
    if stage.writeback is not None:
        return "it writes back"
    if spec.needs_times and stage.event_time is not None:
        # Even if it names no field: workers get only the record's Kafka timestamp.
        return "the event_time is needed"
    if {name for lookup in spec.lookups for name in lookup.keys} != set(fields):
        return "a key is an expression or a field that is not plain"
    for field in columns.select(fields).arrow:
        if not EventFields.can_read_alone(field.type):
            return f"the field {field.name} is neither text nor a whole number"
    for lookup in spec.lookups:
        if not _is_written_alike(lookup.kind):
            return f"the table {lookup.table} has columns that only Spark writes: select others"
    if (typical := event_bytes()) > _LARGEST_BYTES:
        return f"its events are large: {typical} bytes"
    return None


def _enriching(spec: WholeSpec, pin: Pin | None) -> Callable[[Iterator[tuple[pa.Array, ...]]], Iterator[pa.Array]]:
    def enrich(batches: Iterator[tuple[pa.Array, ...]]) -> Iterator[pa.Array]:
        # Imported in the worker only: the driver writes no JSON.
        from enrich.stage.worker.enriching import Enriching

        enriching = Enriching(spec, task_answers(spec.task, pin))
        return (enriching.enriched(values, times) for values, times in batches)

    return enrich


def _is_written_alike(kind: pa.DataType) -> bool:
    """Whether workers write values of this type exactly as Spark does."""
    if pa.types.is_struct(kind) or pa.types.is_list(kind):
        return all(_is_written_alike(kind.field(index).type) for index in range(kind.num_fields))
    return any(is_simple(kind) for is_simple in _SIMPLE)
