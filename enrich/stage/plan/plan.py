"""A stage as one DataFrame: events in, the records of all its topics out."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from pyspark.sql import Column, DataFrame, Observation, SparkSession
from pyspark.sql import functions as sql

from enrich.base.errors import ConfigError
from enrich.config import OnMiss, Pipeline
from enrich.kafka.identity import EVENT_TIME, ORIGIN
from enrich.stage.formats.choosing import event_format
from enrich.stage.formats.event_format import HEADERS_TYPE, KAFKA, bytes_beside_value, header, only_ours, with_identity
from enrich.stage.measure.counting import observed
from enrich.stage.plan.expressions import Expressions
from enrich.stage.plan.leaving.dead_letters import Sender, dead_letter, failure_row
from enrich.stage.plan.leaving.rows import Alternatives, Row, fanned_out
from enrich.stage.plan.leaving.writeback import RECORD, WritebackRows, writeback_rows
from enrich.stage.plan.limits import Limits
from enrich.stage.plan.operators import BySpark, applied, quoted
from enrich.stage.plan.outcome import Outcome
from enrich.stage.plan.parts import StageFields, stage_parts
from enrich.stage.progress.source_versions import SourceVersions
from enrich.stage.steps.keyed import RequireKeys
from enrich.stage.steps.leaving.headers import TakeHeaders
from enrich.stage.steps.leaving.records import TOO_LARGE, Leaving, Letters, WorkerPlan
from enrich.stage.steps.looking_up import LookUp, answers_of_piece
from enrich.stage.steps.step import Operator, Step
from enrich.stage.steps.tallying import TallyEvents
from enrich.stage.task.columns import (
    BESIDE,
    FAILED,
    LAG_REPORT,
    ORIGIN_HEADER,
    OUTPUT,
    PROBLEM,
    PROBLEM_ROUTE,
    RECORDS,
    ROUTE_REPORT,
    ROUTED,
    TALLIES,
    TIME,
    TIME_HEADER,
    USABLE,
)
from enrich.stage.task.fate import Fate
from enrich.stage.task.pin import Pin
from enrich.stage.task.spec import OUTCOME, TaskSpec

_ROUTE_RECORD = "_route_record"
_TALLY = "_tally"
_IS_OUTPUT = "_is_output"
_IS_DEAD = "_is_dead"


class StagePlan:
    """The plan of one stage. Raises ConfigError for what Spark cannot resolve."""

    def __init__(
        self,
        spark: SparkSession,
        pipeline: Pipeline,
        name: str,
        limits: Limits | None = None,
        source: SourceVersions | None = None,
        source_ids: Mapping[str, str] | None = None,
    ) -> None:
        """`source` is needed for a write-back that declares no version. `source_ids`: the ids of the topics of
        events."""
        self._sender = Sender(pipeline.name, name, source_ids or {})
        self._stage = pipeline.stages[name]
        self._is_masked = pipeline.masks is not None
        self._release = pipeline.release
        self._limits = limits or Limits()
        self._format = event_format(pipeline, self._stage.source)
        self._where = where = f"stages.{name}."
        fields = StageFields(spark, self._format, self._stage, where)
        self._writeback = self._writeback_rows(fields.expressions, source, f"{where}writeback.")
        asked = {} if self._writeback is None else self._writeback.columns
        needed = fields.expressions.fields(asked) if asked else []
        parts = stage_parts(spark, pipeline, name, fields, self._limits, needed)
        self._parts = list(parts.parts)
        if self._writeback is not None:
            failed = {FAILED: self._writeback.problem.isNotNull()}
            self._parts += [
                BySpark(asked, needed),
                BySpark(self._writeback.record, [*asked]),
                BySpark(failed, [RECORD]),
            ]
        self._tallies = pipeline.tallies_topic
        if self._tallies is not None:
            routes = [route.name for route in self._stage.routes]
            may_fail, topics = self._writeback is not None, self._stage.source.all_topics
            only = topics[0] if len(topics) == 1 else None
            self._parts.append(TallyEvents(pipeline.name, name, routes, bool(self._stage.lookups), may_fail, only))
        self._spec = parts.spec
        self._routing = parts.routing
        self._reasons = parts.reasons
        self._outcome = Outcome.in_columns(self._spec.lookups)

    @property
    def spec(self) -> TaskSpec:
        """What the stage's workers need."""
        return self._spec

    @property
    def joined_by(self) -> str:
        """Who evaluates the events' expressions, as text for people."""
        return "workers" if not self._reasons else "; ".join(self._reasons)

    def by_workers(self) -> WorkerPlan:
        """The same for workers that read and write records themselves. Raises ConfigError if Spark has to evaluate
        something."""
        if self._reasons:
            raise ConfigError(
                f"with profile: realtime workers evaluate all expressions, and {self._reasons[0]}",
                where=f"{self._where}profile",
                next_step="write the expression in another way, or use profile: latency, where Spark evaluates it",
            )
        steps = [
            TakeHeaders(self._is_masked),
            *(_of_piece(each) for each in self._parts if not isinstance(each, BySpark)),
        ]
        routes = [] if self._routing is None else self._routing.specs
        letters = Letters(
            self._stage.dlq,
            self._sender.stage,
            self._sender.name,
            self._sender.source_ids,
            self._limits.dlq,
            self._format.why,
            [(lookup.name, lookup.table) for lookup in self._spec.lookups],
            self._is_masked,
        )
        leaving = Leaving(
            self._stage.outputs[0] if self._routing is None else None,
            [index for index, route in enumerate(routes) if route.has_key],
            letters,
            self._tallies,
            self._release,
        )
        may_wait = any(lookup.waits or lookup.loads for lookup in self._spec.lookups)
        return WorkerPlan(Operator.of(steps, ()), leaving, may_wait)

    def records(self, source: DataFrame, pin: Pin | None = None, observation: Observation | None = None) -> DataFrame:
        """The columns topic, key, value and headers for Spark's Kafka sink, from the columns of its Kafka source. With
        a pin the tables answer as of its offsets."""
        time = header(EVENT_TIME).alias(TIME_HEADER)
        events = KAFKA.of(source)
        if self._is_masked:
            events = events.withColumn(KAFKA.headers, only_ours())
        events = events.select("*", bytes_beside_value().alias(BESIDE), time)
        wanted = {*KAFKA.columns, USABLE, LAG_REPORT}
        if self._routing is None:
            wanted.add(OUTPUT)
            if self._needs_keys:
                wanted.add(PROBLEM)
        else:
            wanted |= {RECORDS, ROUTED, PROBLEM, PROBLEM_ROUTE, ROUTE_REPORT}
        if self._tallies is not None:
            events = events.select("*", header(ORIGIN).alias(ORIGIN_HEADER))
            wanted.add(TALLIES)
        if self._stage.event_time is not None:
            wanted.add(TIME)
        if self._stage.lookups:
            wanted |= {f"_{name}" for name in OUTCOME}
        if self._writeback is not None:
            wanted |= {RECORD, FAILED}
        made = applied(events, self._parts, wanted, pin)
        fates = {"dropped": self._is_dropped(), "dead_letters": sql.col(_IS_DEAD)}
        if self._writeback is not None:
            fates["written_back"] = sql.col(_IS_OUTPUT) & self._writeback.is_there
        judged = self._judged(made)
        nothing = sql.lit(None).cast("string")
        report = self._outcome.report() if self._stage.lookups else nothing
        routes = nothing if self._routing is None else sql.col(ROUTE_REPORT)
        with_reports = self._with_reports(judged)
        counted = observed(with_reports, self._is_event, fates, report, routes, sql.col(LAG_REPORT), observation)
        return self._fanned_out(counted)

    def _judged(self, events: DataFrame) -> DataFrame:
        """Decides once where each event goes, since each column of each record needs it. The enriched value replaces
        the original one, so that not both are carried along."""
        is_output = self._is_whole()
        columns = [quoted(name) for name in events.columns]
        if self._routing is None:
            value = sql.when(is_output, sql.col(OUTPUT)).otherwise(sql.col(KAFKA.value))
            columns = [value.alias(name) if name == KAFKA.value else quoted(name) for name in events.columns]
        routes = [is_output.alias(_IS_OUTPUT), (~is_output & ~self._is_dropped()).alias(_IS_DEAD)]
        return events.select(*columns, *routes).drop(OUTPUT)

    def _with_reports(self, events: DataFrame) -> DataFrame:
        """The events, and a row for each report that one carries. Most carry no list; they stand once, with a null.

        It comes before the events are counted: there Spark fuses it with what is before, and copies no row for it."""
        if self._tallies is None:
            return events
        return events.select("*", sql.explode_outer(TALLIES).alias(_TALLY)).drop(TALLIES)

    @property
    def _is_event(self) -> Column:
        return sql.lit(True) if self._tallies is None else sql.col(_TALLY).isNull()

    def _fanned_out(self, events: DataFrame) -> DataFrame:
        letter, is_event = self._letter(), self._is_event
        tallies = [] if self._tallies is None else [self._tally(self._tallies)]
        if self._routing is None:
            each_makes_one = self._writeback is None and not self._drops
            rows = [[*tallies, self._output(), letter], *self._written_back(is_event)]
            return fanned_out(events, rows, each_makes_one=each_makes_one)
        # A record of a route, or null: then the event is a dead letter, or makes none.
        listed = sql.when(sql.col(_IS_OUTPUT) & is_event, sql.col(RECORDS))
        exploded = events.select("*", sql.explode_outer(listed).alias(_ROUTE_RECORD)).drop(RECORDS)
        record = sql.col(_ROUTE_RECORD)
        return fanned_out(
            exploded, [[*tallies, self._routing.row(record.isNotNull(), record, self._identity()), letter]]
        )

    def _output(self) -> Row:
        return Row(
            wanted=sql.col(_IS_OUTPUT),
            topic=sql.lit(self._stage.outputs[0]),
            key=sql.col(KAFKA.key),
            value=sql.col(KAFKA.value),
            headers=self._identity(),
        )

    @staticmethod
    def _tally(topic: str) -> Row:
        report = sql.col(_TALLY)
        none = sql.lit(None).cast(HEADERS_TYPE)
        return Row(report.isNotNull(), sql.lit(topic), report["key"], report["value"], none)

    def _identity(self) -> Column:
        """The event's headers, with its origin, its time and the release."""
        time_ms = sql.unix_millis(KAFKA.timestamp)
        if self._stage.event_time is not None:
            time_ms = sql.coalesce(sql.unix_millis(TIME), time_ms)
        return with_identity(time_ms, self._release)

    def _letter(self) -> Row:
        is_dead = sql.col(_IS_DEAD)
        if self._stage.dlq is None:
            return failure_row(is_dead, self._reason())
        decided = {"enrich.lookup": self._deciding_lookup(), "enrich.route": self._deciding_route()}
        if self._is_masked:
            decided["enrich.masked"] = sql.lit("true")
        return dead_letter(is_dead, self._stage.dlq, self._sender, self._reason(), decided, self._limits.dlq)

    def _writeback_rows(
        self, expressions: Expressions, source: SourceVersions | None, where: str
    ) -> WritebackRows | None:
        section = self._stage.writeback
        if section is None:
            return None
        return writeback_rows(section, expressions, source, self._limits.writeback, where, release=self._release)

    def _written_back(self, is_event: Column) -> Sequence[Alternatives]:
        return [] if self._writeback is None else [[self._writeback.row(sql.col(_IS_OUTPUT) & is_event)]]

    def _is(self, fate: Fate) -> Column:
        return self._outcome.fate() == fate if self._stage.lookups else sql.lit(fate == Fate.FORWARD)

    @property
    def _needs_keys(self) -> bool:
        """Whether the sink takes no event without a key. Routes look at that themselves."""
        return any(isinstance(part, RequireKeys) for part in self._parts)

    @property
    def _drops(self) -> bool:
        return any(lookup.last_resort == OnMiss.drop for lookup in self._spec.lookups)

    def _is_dropped(self) -> Column:
        dropped = sql.col(USABLE) & self._is(Fate.DROP) if self._drops else sql.lit(False)
        if self._routing is None:
            return dropped
        return dropped | (sql.col(USABLE) & self._is(Fate.FORWARD) & (sql.col(ROUTED) == Fate.DROP))

    def _is_whole(self) -> Column:
        """Whether all records of the event can be written. Otherwise none of them is, so that it can be replayed."""
        if self._routing is not None:
            return sql.col(USABLE) & self._is(Fate.FORWARD) & (sql.col(ROUTED) == Fate.FORWARD)
        is_there = sql.col(OUTPUT).isNotNull()
        return is_there if self._writeback is None else is_there & ~sql.col(FAILED)

    def _reason(self) -> Column:
        reason = sql.when(~sql.col(USABLE), self._format.reason())
        if self._stage.lookups:
            _, table, status = self._outcome.deciding()
            no_row = sql.concat(sql.lit("no row in the table "), table, sql.lit(": "), status)
            reason = reason.when(self._is(Fate.DLQ), no_row)
        if self._routing is not None:
            route, problem = sql.col(PROBLEM_ROUTE), sql.col(PROBLEM)
            return reason.otherwise(sql.concat_ws(": ", sql.concat(sql.lit("route "), route), problem))
        problems = [sql.col(PROBLEM)] if self._needs_keys else []
        if self._writeback is not None:
            problems.append(self._writeback.problem)
        return reason.otherwise(sql.coalesce(*problems, sql.lit(TOO_LARGE)))

    def _deciding_lookup(self) -> Column:
        if not self._stage.lookups:
            return sql.lit(None).cast("string")
        name, _, _ = self._outcome.deciding()
        return sql.when(sql.col(USABLE) & self._is(Fate.DLQ), name)

    def _deciding_route(self) -> Column:
        return sql.lit(None).cast("string") if self._routing is None else sql.col(PROBLEM_ROUTE)


def _of_piece(step: Step) -> Step:
    return replace(step, answers=answers_of_piece) if isinstance(step, LookUp) else step
