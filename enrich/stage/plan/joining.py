"""The lookups of a stage over any DataFrame: keys in, one answer column out, and the columns read from it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sql

from enrich.config import Lookup, Pipeline, to_wire
from enrich.stage.plan.expressions import Expression, Expressions
from enrich.stage.plan.jvm_join import answer_column
from enrich.stage.plan.outcome import Outcome
from enrich.stage.task.freshness import freshness_rules
from enrich.stage.task.lookups import stage_lookups
from enrich.stage.task.spec import LINEAGE, TaskSpec, lineage_name, object_name

OURS = "_enrich_"
"""Prefix of the columns that are temporarily added to a user's DataFrame."""
ANSWER = f"{OURS}answer"
TIME = f"{OURS}time"
_ASKS = f"{OURS}asks"


@dataclass(frozen=True)
class Joining:
    """Lookups whose expressions are resolved over a schema. Made by `joining`."""

    spec: TaskSpec
    keys: Sequence[Column]
    time: Column | None

    @cached_property
    def asked(self) -> Mapping[str, Column]:
        """The columns that the operator needs, under names that no user's column has."""
        keys = {f"{OURS}key_{index}": key for index, key in enumerate(self.keys)}
        return keys if self.time is None else {**keys, TIME: self.time}

    def answered(self, frame: DataFrame, kept: Sequence[Column], usable: Column) -> DataFrame:
        """The kept columns with the answers. No policy applies to rows whose `usable` is false. It is never null."""
        if not self.spec.lookups:
            return frame.select(*kept)
        questions = frame.select(*kept, usable.alias(_ASKS), *(c.alias(name) for name, c in self.asked.items()))
        times = None if self.time is None else sql.col(TIME)
        keys = [sql.col(name) for name in self.asked if name != TIME]
        answer = answer_column(self.spec, sql.col(_ASKS), keys, times)
        return questions.select(*kept, answer.alias(ANSWER))

    def objects(self) -> list[Column]:
        """What is added to an event: an object for each lookup, under its name, and the lineage."""
        named = list(enumerate(self.spec.lookups))
        objects = [sql.col(ANSWER)[object_name(index)].alias(lookup.name) for index, lookup in named]
        if self.spec.lineage and named:
            each = [sql.col(ANSWER)[lineage_name(index)].alias(lookup.name) for index, lookup in named]
            objects.append(sql.struct(*each).alias(LINEAGE))
        return objects

    @property
    def outcome(self) -> Outcome:
        return Outcome(self.spec.lookups, lambda name: sql.col(ANSWER)[name])


def joining(
    pipeline: Pipeline,
    lookups: Sequence[Lookup],
    expressions: Expressions,
    time: Column | None,
    *,
    lineage: bool = False,
    where: str = "",
) -> Joining:
    """`time`: the time of the events. Raises ConfigError, naming the lookup under `where`, for what cannot work."""
    spec = task_spec(pipeline, lookups, lineage=lineage)
    keys = [
        expressions.key([Expression(text, f"{where}lookups[{index}].key") for text in lookup.keys])
        for index, lookup in enumerate(spec.lookups)
    ]
    return Joining(spec, keys, time if spec.needs_times else None)


def task_spec(pipeline: Pipeline, lookups: Sequence[Lookup], *, lineage: bool) -> TaskSpec:
    """Raises ConfigError for a table that the pipeline does not have."""
    planned = stage_lookups(pipeline, lookups)
    rules = freshness_rules(pipeline, (lookup.table for lookup in planned))
    key = b"" if pipeline.masks is None else pipeline.masks.secret
    return TaskSpec(to_wire(pipeline), planned, rules, lineage, key)
