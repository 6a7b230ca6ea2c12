"""The one Python operator of a stage whose JSON events are joined whole: events in, enriched events out.

Where all keys are plain fields Spark has nothing to evaluate, and reading and writing JSON in columns takes a fraction
of what the JVM takes a row at a time; more than carrying the payload there and back costs (ADR 0037).
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sql
from pyspark.sql.functions import arrow_udf  # type: ignore[attr-defined] # missing in its stubs
from pyspark.sql.pandas.types import from_arrow_type

from enrich.config import Columns, Stage
from enrich.stage.answers import Answers, Questions
from enrich.stage.event_fields import EventFields
from enrich.stage.event_text import can_write, members_text, object_of, object_text, spliced
from enrich.stage.events import KAFKA, USABLE
from enrich.stage.joining import ANSWER
from enrich.stage.operator import task_answers
from enrich.stage.order import DECIDED_BY, FATE, LINEAGE, STATUS, TOLD, Order, lineage_name, object_name
from enrich.stage.outcome import Outcome
from enrich.stage.pin import Pin
from enrich.stage.policies import Fate

OUTPUT = "_output"
_VERDICT = (FATE, DECIDED_BY, STATUS, TOLD)


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

    def enriched(
        self, answers: Answers, reader: EventFields, values: pa.BinaryArray, times: pa.Array
    ) -> pa.StructArray:
        """One batch, in `_kind`."""
        usable, rows = reader.read(values)
        keys = [_key([rows.field(name) for name in names]) for names in self.keys]
        answer = answers.answer(Questions(usable, keys, times if self.order.needs_times else None))
        forwarded = usable & (answer.field(FATE).to_numpy() == Fate.FORWARD)
        output = spliced(values, forwarded, members_text(self._members(answer)))
        columns = [pa.array(usable), output, *(answer.field(name) for name in _VERDICT)]
        return pa.StructArray.from_arrays(columns, fields=list(self._kind))

    def _column(self, pin: Pin | None) -> Column:
        udf = arrow_udf(_enriching(self, task_answers, pin), from_arrow_type(self._kind)).asNondeterministic()
        column: Column = udf(sql.col(KAFKA.value), sql.col(KAFKA.timestamp))
        return column

    def _members(self, answer: pa.StructArray) -> Mapping[str, pa.BinaryArray]:
        named = list(enumerate(self.order.lookups))
        members = {lookup.name: object_text(answer.field(object_name(index))) for index, lookup in named}
        if self.order.lineage:
            each = {lookup.name: object_text(answer.field(lineage_name(index))) for index, lookup in named}
            members[LINEAGE] = object_of(each)
        return members

    @property
    def _kind(self) -> pa.StructType:
        verdict = [self.order.answer_type.field(name) for name in _VERDICT]
        return pa.struct([pa.field(USABLE, pa.bool_()), pa.field(OUTPUT, pa.binary()), *verdict])


def whole_events(stage: Stage, order: Order, fields: Sequence[str]) -> WholeEvents | None:
    """None where Spark is needed, see `why_evaluated`."""
    columns = stage.source.schema_
    if not isinstance(columns, Columns) or why_evaluated(stage, order, fields) is not None:
        return None
    return WholeEvents(order, [lookup.keys for lookup in order.lookups], columns.select(fields))


def why_evaluated(stage: Stage, order: Order, fields: Sequence[str]) -> str | None:
    """For what Spark has to evaluate the events of a stage; None where it need not. `fields`: those that the stage's
    expressions name, as Spark says."""
    columns = stage.source.schema_
    if not isinstance(columns, Columns):
        return f"the events are {stage.source.format}"
    if not order.lookups:
        return "there is nothing to look up"
    if stage.writeback is not None:
        return "it writes back"
    if {name for lookup in order.lookups for name in lookup.keys} != set(fields):
        return "a key, or the event_time that is waited for, is an expression or a field that is not plain"
    for field in columns.select(fields).arrow:
        if not EventFields.can_read(field.type):
            return f"the field {field.name} is neither text nor a whole number"
    for lookup in order.lookups:
        if not can_write(lookup.kind):
            return f"the table {lookup.table} has columns that only Spark writes: select others"
    return None


def _enriching(
    whole: WholeEvents, begin: Callable[[Order, Pin | None], Answers], pin: Pin | None
) -> Callable[[Iterator[tuple[pa.Array, ...]]], Iterator[pa.Array]]:
    def enrich(batches: Iterator[tuple[pa.Array, ...]]) -> Iterator[pa.Array]:
        answers, reader = begin(whole.order, pin), EventFields(whole.fields.arrow)
        return (whole.enriched(answers, reader, values, times) for values, times in batches)

    return enrich


def _key(parts: Sequence[pa.Array]) -> pa.Array:
    if len(parts) == 1:
        return parts[0]
    return pa.StructArray.from_arrays(list(parts), names=[f"part_{number}" for number in range(len(parts))])
