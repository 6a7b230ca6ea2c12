"""What happens to the events of a stage, in order: read, normalize, look up, write, take routes. Each part is a step of
the workers, or columns that Spark evaluates."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pyspark.sql import Column, SparkSession
from pyspark.sql.pandas.types import from_arrow_type, to_arrow_type
from pyspark.sql.types import StringType, StructField, StructType

from enrich.config import Pipeline, Replay, Stage
from enrich.config.sections.stages.routes import DLQ, takes_tombstones
from enrich.config.sections.stages.source import Tombstones
from enrich.stage.compute import Compiled, NotCompiled
from enrich.stage.formats.event_format import EventFormat
from enrich.stage.plan.expressions import Expression, Expressions
from enrich.stage.plan.joining import task_spec
from enrich.stage.plan.leaving.routing import Routing, require_json, routing
from enrich.stage.plan.limits import Limits
from enrich.stage.plan.operators import BySpark, Part
from enrich.stage.steps.computing import Compute, fields_of
from enrich.stage.steps.keyed import RequireKeys
from enrich.stage.steps.leaving.routes import TakeRoutes
from enrich.stage.steps.leaving.whole import WriteWhole
from enrich.stage.steps.looking_up import LookUp
from enrich.stage.steps.timing import FindTimes, NoteArrival, ReportLags
from enrich.stage.steps.tombstones import TakeTombstones
from enrich.stage.task.columns import TIME, TIMESTAMP, TOPIC
from enrich.stage.task.fate import Fate
from enrich.stage.task.spec import TaskSpec


@dataclass(frozen=True)
class StageParts:
    """Made by `stage_parts`."""

    parts: Sequence[Part]
    spec: TaskSpec
    routing: Routing | None
    """None: there is one output, which takes all events."""
    reasons: Sequence[str]
    """Why Spark evaluates some expressions, as sentences."""


class StageFields:
    """The fields of a stage's events, and which of them are needed."""

    def __init__(self, spark: SparkSession, form: EventFormat, stage: Stage, where: str) -> None:
        """`where`: how the stage's section begins, as `stages.enrich.`. Raises ConfigError for expressions of
        `normalize` that cannot work."""
        repeatable = stage.replay == Replay.deterministic
        # An expression may also name the topic, which an event has in every format.
        with_topic = [*form.schema, StructField(TOPIC, StringType())]
        self._raw = Expressions(spark, StructType(with_topic), repeatable=repeatable)
        texts = {name: Expression(text, f"{where}normalize.{name}") for name, text in stage.normalize.items()}
        self.normalize = {name: self._raw.value(each) for name, each in texts.items()}
        compiled = {name: self._raw.compiled(each.text) for name, each in texts.items()}
        self.reasons = {each.text: each.reason for each in compiled.values() if isinstance(each, NotCompiled)}
        """Why Spark evaluates `normalize`, by expression."""
        self._compiled = {name: each for name, each in compiled.items() if isinstance(each, Compiled)}
        changed = {name: StructField(name, self._raw.kind(each)) for name, each in texts.items()}
        self.schema = StructType([*({field.name: field for field in with_topic} | changed).values()])
        self.expressions = Expressions(spark, self.schema, repeatable=repeatable)
        """Over the fields as they are once they are normalized."""
        self.form = form

    def normalizing(self) -> Part:
        """All fields at once: each is over the others as they came."""
        if not self.reasons:
            return Compute(self._compiled)
        return BySpark(self.normalize, self._raw.fields(self.normalize))

    def to_read(self, needed: Sequence[str]) -> list[str]:
        """The fields of the event as it comes that are needed for these, and for `normalize`."""
        later = {*needed} - self.normalize.keys()
        names = {*self._raw.fields(self.normalize), *later, *(self.form.written_fields or ())}
        return [name for name in self.form.schema.names if name in names]


def stage_parts(
    spark: SparkSession,
    pipeline: Pipeline,
    name: str,
    fields: StageFields,
    limits: Limits,
    others: Sequence[str],
) -> StageParts:
    """`limits`: of the outputs. `others`: fields that are needed for something else. Raises
    ConfigError for expressions that cannot work."""
    stage, where, form = pipeline.stages[name], f"stages.{name}.", fields.form
    spec = task_spec(pipeline, stage.lookups, lineage=stage.lineage)
    lookups = spec.lookups
    asked = _asked(fields.expressions, spec, stage, where)
    ways = None
    if stage.sink is None:
        objects = [StructField(lookup.name, from_arrow_type(lookup.kind)) for lookup in lookups]
        schema = StructType([*fields.schema, *objects])
        repeatable = stage.replay == Replay.deterministic
        registry = pipeline.kafka.registry
        ways = routing(spark, stage.routes, stage.otherwise, schema, limits, registry, where, repeatable=repeatable)
    on_routes = () if ways is None else (name for name in ways.needs if name in fields.schema.names)
    parts: list[Part] = [NoteArrival(), *form.read(fields.to_read([*asked.needs, *others, *on_routes]))]
    if fields.normalize:
        parts.append(fields.normalizing())
    parts.append(asked.by_spark)
    if asked.computed:
        parts.append(Compute(asked.computed))
    parts.append(FindTimes(stage.event_time is not None))
    if lookups:
        parts.append(LookUp(spec, asked.keys, asked.time))
    if ways is None or not all(route.selects for route in ways.specs):
        for lookup in lookups:
            require_json(lookup.kind, f"the rows of {lookup.table}", f"{where}lookups")
        written = form.written_fields
        if written is not None:
            written = (*written, *(each for each in fields.normalize if each not in written))
        for column in fields.schema:
            if column.name in (fields.normalize if written is None else written):
                require_json(
                    to_arrow_type(column.dataType, timezone="UTC"), f"the field {column.name}", f"{where}source"
                )
        most = limits.of(stage.outputs[0]) if ways is None else None
        names = [each.name for each in lookups]
        parts.append(WriteWhole(names, stage.lineage, list(fields.normalize), written, most))
        if ways is None and stage.outputs[0] in limits.compacted:
            parts.append(RequireKeys())
    if ways is not None:
        rest = Fate.DLQ if stage.otherwise == DLQ else Fate.DROP
        taking = TakeRoutes(ways.specs, rest, bool(lookups))
        parts += [ways.evaluated, taking]
        if stage.source.tombstones != Tombstones.dlq:
            forwards = stage.source.tombstones == Tombstones.forward
            on = {
                index: route.all_topics
                for index, route in enumerate(stage.routes)
                if forwards and takes_tombstones(route)
            }
            keyed_by = next((ways.specs[index].name for index in on if ways.specs[index].compacted), None)
            most_bytes = {index: min(ways.specs[index].most_bytes.values()) for index in on}
            names = [route.name for route in stage.routes]
            parts.append(TakeTombstones(names, on, taking.record, most_bytes, keyed_by))
    parts.append(ReportLags())
    reasons = {**fields.reasons, **asked.reasons, **({} if ways is None else ways.reasons)}
    return StageParts(parts, spec, ways, list(reasons.values()))


@dataclass(frozen=True)
class _Asked:
    """The columns that the lookups need: plain fields, and expressions."""

    keys: Sequence[Sequence[str]]
    time: str | None
    needs: Sequence[str]
    computed: Mapping[str, Compiled]
    by_spark: BySpark
    reasons: Mapping[str, str]


def _asked(expressions: Expressions, spec: TaskSpec, stage: Stage, where: str) -> _Asked:
    keys: list[list[str]] = []
    wanted: dict[str, tuple[str, Column]] = {}
    for index, lookup in enumerate(spec.lookups):
        parts = [Expression(text, f"{where}lookups[{index}].key") for text in lookup.keys]
        expressions.key(parts)
        own = []
        for number, part in enumerate(parts):
            own.append(part.text if part.text in expressions.names else f"_key_{index}_{number}")
            wanted[own[-1]] = part.text, expressions.value(part)
        keys.append(own)
    time = TIMESTAMP if spec.needs_times else None
    if stage.event_time is not None:
        text, column = expressions.time(Expression(stage.event_time, f"{where}event_time"))
        if spec.needs_times:
            time = TIME
        wanted[TIME] = text, column
    plain = [name for name in wanted if name in expressions.names]
    computed: dict[str, Compiled] = {}
    by_spark: dict[str, Column] = {}
    reasons: dict[str, str] = {}
    for name, (text, column) in wanted.items():
        if name in plain:
            continue
        compiled = expressions.compiled(text)
        if isinstance(compiled, Compiled):
            computed[name] = compiled
        else:
            by_spark[name], reasons[text] = column, compiled.reason
    left = BySpark(by_spark, expressions.fields(by_spark))
    needs = [*plain, *fields_of(computed.values()), *left.needs]
    return _Asked(keys, time, needs, computed, left, reasons)
