"""A stage as one DataFrame: events in, the records of all its topics out, with a single Python operator between."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from pyspark.sql import Column, DataFrame, Observation, SparkSession
from pyspark.sql import functions as sql

from enrich.config import OnMiss, Pipeline, Replay
from enrich.stage.events.events import KAFKA, bytes_beside_value, with_origin
from enrich.stage.events.formats import event_format
from enrich.stage.measure.counting import observed
from enrich.stage.plan.dead_letters import Sender, dead_letter, failure_row
from enrich.stage.plan.expressions import Expression, Expressions
from enrich.stage.plan.joining import TIME, joining
from enrich.stage.plan.outcome import Outcome
from enrich.stage.plan.rows import Alternatives, Row, fanned_out
from enrich.stage.plan.worker_join import why_evaluated, worker_join
from enrich.stage.plan.writeback import RECORD, WritebackRows, writeback_rows
from enrich.stage.progress.source_versions import SourceVersions
from enrich.stage.task.fate import Fate
from enrich.stage.task.pin import Pin
from enrich.stage.task.spec import TaskSpec
from enrich.stage.task.whole import OUTPUT, USABLE

_IS_OUTPUT = "_is_output"
_IS_DEAD = "_is_dead"


@dataclass(frozen=True)
class Limits:
    """How large the records of a topic may be, in bytes."""

    sink: int = 1_000_000
    """Of every topic of events that is not named below."""
    dlq: int = 1_000_000
    writeback: int = 1_000_000
    outputs: Mapping[str, int] = field(default_factory=dict)

    def of(self, topic: str) -> int:
        """For a topic that events go to."""
        return self.outputs.get(topic, self.sink)


class StagePlan:
    """The plan of one stage. Raises ConfigError for what Spark cannot resolve."""

    def __init__(
        self,
        spark: SparkSession,
        pipeline: Pipeline,
        name: str,
        limits: Limits | None = None,
        source: SourceVersions | None = None,
        event_bytes: Callable[[], int] = lambda: 0,
        source_id: str = "",
    ) -> None:
        """`source` is needed for a write-back that declares no version. `event_bytes`: the typical size of an event,
        called only if it decides how the stage joins. `source_id`: the id of the topic of events."""
        self._sender = Sender(pipeline.name, name, source_id)
        self._stage = pipeline.stages[name]
        self._limits = limits or Limits()
        self._format = event_format(pipeline, self._stage.source)
        where = f"stages.{name}."
        is_repeatable = self._stage.replay == Replay.deterministic
        expressions = Expressions(spark, self._format.schema, repeatable=is_repeatable)
        time = sql.col(KAFKA.timestamp)
        if self._stage.event_time is not None:
            time = expressions.time(Expression(self._stage.event_time, f"{where}event_time"))
        self._joining = joining(
            pipeline, self._stage.lookups, expressions, time, lineage=self._stage.lineage, where=where
        )
        self._writeback = self._writeback_rows(expressions, source, f"{where}writeback.")
        own_time = self._stage.event_time is not None
        named = {name: column for name, column in self._joining.asked.items() if own_time or name != TIME}
        if self._writeback is not None:
            named["_writeback"] = self._writeback.asked
        self._outcome = Outcome.in_columns(self._joining.spec.lookups)
        self._fields = expressions.fields(named)
        spec = self._joining.spec
        self._needs_spark = why_evaluated(self._stage, spec, self._fields, event_bytes)
        self._by_workers = None if self._needs_spark else worker_join(self._stage, spec, self._fields)

    @property
    def spec(self) -> TaskSpec:
        """What the stage's workers need."""
        return self._joining.spec

    @property
    def joined_by(self) -> str:
        """Which side reads and writes the events, and why, as text for people."""
        if self._by_workers is not None:
            return "workers"
        return f"Spark, since {self._needs_spark}"

    def records(self, source: DataFrame, pin: Pin | None = None, observation: Observation | None = None) -> DataFrame:
        """The columns topic, key, value and headers for Spark's Kafka sink, from the columns of its Kafka source. With
        a pin the tables answer as of its offsets."""
        events = KAFKA.of(source)
        enriched = self._evaluated(events, pin) if self._by_workers is None else self._by_workers.answered(events, pin)
        fates = {"dropped": self._is_dropped(), "dead_letters": sql.col(_IS_DEAD)}
        if self._writeback is not None:
            fates["written_back"] = sql.col(_IS_OUTPUT) & self._writeback.is_there
        routed = self._routed(enriched)
        report = self._outcome.report() if self._stage.lookups else sql.lit(None).cast("string")
        counted = observed(routed, fates, report, sql.col(KAFKA.timestamp), observation)
        each_makes_one = self._writeback is None and not self._drops
        return fanned_out(counted, self._rows(), each_makes_one=each_makes_one)

    def _evaluated(self, events: DataFrame, pin: Pin | None) -> DataFrame:
        """The same columns as those of `WorkerJoin`, but Spark evaluates the keys and writes the values."""
        read = self._format.read(events, self._fields)
        kept = [*KAFKA.columns, USABLE]
        if self._writeback is not None:
            read, kept = self._writeback.recorded(read), [*kept, RECORD]
        answered = self._joining.answered(read, [*kept, *self._format.kept], sql.col(USABLE), pin)
        value = self._format.output(self._joining.objects())
        if not self._stage.lookups:
            return answered.select(*kept, sql.when(sql.col(USABLE), value).alias(OUTPUT))
        outcome = self._joining.outcome
        is_forwarded = sql.col(USABLE) & (outcome.fate() == Fate.FORWARD)
        return answered.select(*kept, sql.when(is_forwarded, value).alias(OUTPUT), *outcome.apart())

    def _routed(self, events: DataFrame) -> DataFrame:
        """Decides once where each event goes, since each column of each record needs it. The enriched value replaces
        the original one, so that not both are carried along."""
        is_output = self._is_whole()
        value = sql.when(is_output, sql.col(OUTPUT)).otherwise(sql.col(KAFKA.value))
        columns = [value.alias(name) if name == KAFKA.value else sql.col(name) for name in events.columns]
        routes = [is_output.alias(_IS_OUTPUT), (~is_output & ~self._is_dropped()).alias(_IS_DEAD)]
        return events.select(*columns, *routes).drop(OUTPUT)

    def _rows(self) -> Sequence[Alternatives]:
        output = Row(
            wanted=sql.col(_IS_OUTPUT),
            topic=sql.lit(self._stage.outputs[0]),
            key=sql.col(KAFKA.key),
            value=sql.col(KAFKA.value),
            headers=with_origin(),
        )
        is_dead = sql.col(_IS_DEAD)
        if self._stage.dlq is None:
            return [[output, failure_row(is_dead, self._reason())], *self._written_back()]
        letter = dead_letter(
            is_dead, self._stage.dlq, self._sender, self._reason(), self._deciding_lookup(), self._limits.dlq
        )
        return [[output, letter], *self._written_back()]

    def _writeback_rows(
        self, expressions: Expressions, source: SourceVersions | None, where: str
    ) -> WritebackRows | None:
        section = self._stage.writeback
        if section is None:
            return None
        return writeback_rows(section, expressions, source, self._limits.writeback, where)

    def _written_back(self) -> Sequence[Alternatives]:
        return [] if self._writeback is None else [[self._writeback.row(sql.col(_IS_OUTPUT))]]

    def _is(self, fate: Fate) -> Column:
        return self._outcome.fate() == fate if self._stage.lookups else sql.lit(fate == Fate.FORWARD)

    @property
    def _drops(self) -> bool:
        return any(lookup.last_resort == OnMiss.drop for lookup in self._joining.spec.lookups)

    def _is_dropped(self) -> Column:
        return sql.col(USABLE) & self._is(Fate.DROP) if self._drops else sql.lit(False)

    def _is_whole(self) -> Column:
        """Whether all records of the event can be written. Otherwise none of them is, so that it can be replayed."""
        fits = sql.coalesce(
            sql.length(OUTPUT) + bytes_beside_value() <= self._limits.of(self._stage.outputs[0]), sql.lit(False)
        )
        return fits if self._writeback is None else fits & self._writeback.problem.isNull()

    def _reason(self) -> Column:
        reason = sql.when(~sql.col(USABLE), self._format.reason())
        if self._stage.lookups:
            _, table, status = self._outcome.deciding()
            no_row = sql.concat(sql.lit("no row in the table "), table, sql.lit(": "), status)
            reason = reason.when(self._is(Fate.DLQ), no_row)
        too_large = "the enriched event is too large for the sink"
        if self._writeback is None:
            return reason.otherwise(too_large)
        return reason.otherwise(sql.coalesce(self._writeback.problem, sql.lit(too_large)))

    def _deciding_lookup(self) -> Column:
        if not self._stage.lookups:
            return sql.lit(None).cast("string")
        name, _, _ = self._outcome.deciding()
        return sql.when(sql.col(USABLE) & self._is(Fate.DLQ), name)
