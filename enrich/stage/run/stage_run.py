"""One run of a stage: from its checks to the end of its query. What comes after what: life.py."""

import logging
import os
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any
from uuid import UUID

from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from enrich.base.errors import EnrichError, Fenced
from enrich.config import Pipeline, Replay
from enrich.config.groups import stage_group
from enrich.kafka import Topics, librdkafka_settings, new_admin_client
from enrich.service.page import Page, serve_page
from enrich.stage.measure.counting import StageCounts
from enrich.stage.measure.metrics import StageMetrics
from enrich.stage.plan.plan import StagePlan
from enrich.stage.progress.added_topics import begins_late, enter_added
from enrich.stage.progress.checkpoint import Checkpoint, choose_file_manager
from enrich.stage.progress.drivers import at_work, is_at_work, wait_for_others
from enrich.stage.progress.group import StageProgress, ends_of
from enrich.stage.progress.pinning import PinBook, TableEnds
from enrich.stage.progress.source_topics import Position, SourceTopics, position_of, require_kept
from enrich.stage.progress.source_versions import source_versions
from enrich.stage.progress.source_watch import SourceWatch
from enrich.stage.progress.starting import From, starting_options
from enrich.stage.run.draining import drain, stop_now
from enrich.stage.run.life import Happening, Phase, new_life
from enrich.stage.run.preload import preload
from enrich.stage.run.stopping import StopOrder
from enrich.stage.run.topics import checked_topics, warn_of_higher_release
from enrich.stage.run.writing import PinnedBatches, StreamedBatches, Writing
from enrich.stage.spark.profiles import StageSettings, sink_options, source_options, subscription
from enrich.stage.task.failures import from_report

_log = logging.getLogger(__name__)

_LOOK_EVERY_S = 0.2
_PATIENCE_S = 10.0
_ASK_EVERY_S = 1.0
"""How far the query is."""


@dataclass(frozen=True)
class RunOptions:
    """What a person who starts a stage may choose."""

    master: str | None = None
    settings: Mapping[str, str] = field(default_factory=dict)
    start: From | None = None
    new_pin: bool = False
    """The batch under way may be answered otherwise than before."""
    accept_new_source: bool = False
    """The topic of the events was recreated with the same events at the same offsets."""


@dataclass(frozen=True)
class _Parts:
    """What a run consists of, once everything is checked."""

    checkpoint: Checkpoint
    source: SourceTopics
    topics: Topics
    progress: StageProgress
    starting: Mapping[str, str]
    plan: StagePlan
    metrics: StageMetrics
    counts: StageCounts
    writing: Writing
    order: StopOrder


class StageRun:
    """In a session that is there already, until `stop` is set."""

    def __init__(
        self,
        spark: SparkSession,
        pipeline: Pipeline,
        name: str,
        settings: StageSettings,
        options: RunOptions,
        stop: threading.Event,
    ) -> None:
        self._spark = spark
        self._pipeline = pipeline
        self._name = name
        self._stage = pipeline.stages[name]
        self._settings = settings
        self._options = options
        self._stop = stop
        self._connection = librdkafka_settings(pipeline.kafka)
        self._life = new_life()

    @property
    def phase(self) -> Phase:
        return self._life.state

    def run(self) -> None:
        """Returns once it has drained. Raises an error of our tree when it cannot go on."""
        with ExitStack() as held:
            try:
                parts = self._start(held)
                preload(self._spark, parts.plan.spec, parts.order.is_given)
                if parts.order.is_given():
                    self._end_before_it_began(parts)
                    return
                self._life.happens(Happening.READY)
                self._take_over(parts, held)
                self._life.happens(Happening.ALONE)
                all_reported = self._run(parts, held)
            except Exception:
                self._life.happens(Happening.FAILED)
                raise
        if not all_reported:
            _log.warning("Spark has not reported all batches; the totals may be short")
        _log.info("the stage has drained", extra={"stage": self._name, **parts.counts.totals()})

    def _start(self, held: ExitStack) -> _Parts:
        """Checks everything that can be checked while another driver may still run."""
        spark, stage = self._spark, self._stage
        found = checked_topics(self._pipeline, self._name, self._connection)
        choose_file_manager(spark, stage.checkpoint)
        checkpoint = Checkpoint(spark, stage.checkpoint)
        accepts = self._options.accept_new_source
        source = SourceTopics(found.ids).continued(checkpoint, stage.source.reads, accepts_another=accepts)
        topics = Topics(new_admin_client(self._connection), deadline_s=_PATIENCE_S)
        warn_of_higher_release(self._pipeline, self._name, topics, self._connection)

        def require_all_kept(position: Position) -> None:
            for topic, offsets in position.items():
                require_kept(topic, offsets, topics.start_offsets(topic), topics.written_offsets(topic))

        require_all_kept(position_of(checkpoint))
        progress = held.enter_context(closing(StageProgress(self._connection, self._pipeline.name, self._name)))
        starting = starting_options(
            self._name,
            found.partitions,
            has_progress=checkpoint.has_progress(),
            progress=progress,
            chosen=self._options.start,
            kept=require_all_kept,
        )
        versions = None
        if stage.writeback is not None and stage.writeback.version is None:
            ((topic, topic_id),) = source.ids.items()  # the configuration refuses several
            written = partial(topics.written_offsets, topic)
            versions = source_versions(topic, topic_id, len(found.partitions[topic]), checkpoint, progress, written)
        plan = StagePlan(spark, self._pipeline, self._name, found.limits, versions, source.ids_in_letters)
        metrics = StageMetrics(
            self._pipeline.name, self._name, plan.spec.lookups, _processes(spark), [each.name for each in stage.routes]
        )
        counts = StageCounts(metrics)
        writing = held.enter_context(
            _writing(spark, self._pipeline, self._name, plan, checkpoint, counts, self._options)
        )
        order = StopOrder(checkpoint, self._stop)
        return _Parts(checkpoint, source, topics, progress, starting, plan, metrics, counts, writing, order)

    def _end_before_it_began(self, parts: _Parts) -> None:
        # A driver that runs the stage now was not shut out, and a marker is for it too.
        if not is_at_work(parts.checkpoint):
            parts.checkpoint.forget_stop()
        self._life.happens(Happening.STOP)
        _log.info("the stage was told to stop before it began", extra={"stage": self._name})

    def _take_over(self, parts: _Parts, held: ExitStack) -> None:
        """Shuts out the driver before this one, and waits for its end."""
        parts.progress.take_over()
        wait_for_others(parts.checkpoint, parts.order.is_given)
        held.enter_context(at_work(parts.checkpoint))
        is_pinned = self._stage.replay == Replay.deterministic and not self._options.new_pin
        enter_added(parts.checkpoint, parts.source.ids.keys(), parts.topics.start_offsets, is_pinned=is_pinned)
        parts.source.keep_with(parts.checkpoint)
        parts.progress.reached(position_of(parts.checkpoint))
        parts.order.forget_old()

    def _run(self, parts: _Parts, held: ExitStack) -> bool:
        """Runs the query until it has ended. Returns whether Spark has reported all of its batches."""
        spark, stage, counts = self._spark, self._stage, parts.counts
        if stage.metrics_port is not None:
            next_step = f"give each stage of a host another stages.{self._name}.metrics_port"
            server = serve_page(stage.metrics_address, stage.metrics_port, self._page(parts), next_step)
            if server is not None:
                held.callback(server.close)
        matches = None if stage.source.topic_pattern is None else stage.source.reads
        watch = held.enter_context(closing(SourceWatch(parts.source, parts.topics, matches, stage.outputs)))
        spark.streams.addListener(counts)
        query = self._started_query(parts)
        _log.info("the stage runs", extra={"stage": self._name, "joined_by": parts.plan.joined_by})
        failure: EnrichError | None = None
        try:
            self._supervise(query, parts, watch)
        except EnrichError as error:
            failure = error
            raise
        finally:
            all_reported = stop_now(query) and counts.wait_for_end(UUID(str(query.runId)))
            spark.streams.removeListener(counts)
            if not isinstance(failure, Fenced):  # then a marker is for the driver that took over
                parts.order.obeyed(failure)
        return all_reported

    def _page(self, parts: _Parts) -> Page:
        def status() -> Mapping[str, Any]:
            run = {"pipeline": self._pipeline.name, "stage": self._name, "phase": self.phase}
            return {**run, "joined_by": parts.plan.joined_by, **parts.counts.totals(), **parts.metrics.lags()}

        def not_ready() -> Mapping[str, str | None]:
            return {} if self.phase == Phase.RUNNING else {"stage": self.phase}

        return Page(parts.metrics.exposition, status, not_ready=not_ready)

    def _started_query(self, parts: _Parts) -> StreamingQuery:
        stage = self._stage
        events = (
            self._spark.readStream.format("kafka")
            .options(**source_options(self._pipeline.kafka), **self._settings.source, **parts.starting)
            .options(**subscription(stage.source))
            .option("failOnDataLoss", "true")
            .option("includeHeaders", "true")
            .option("groupIdPrefix", stage_group(self._pipeline.name, self._name))
            .load()
        )
        return (
            parts.writing.of(events)
            .options(**self._settings.query)
            .option("checkpointLocation", stage.checkpoint)
            .queryName(self._name)
            .start()
        )

    def _supervise(self, query: StreamingQuery, parts: _Parts, watch: SourceWatch) -> None:
        """Until the query fails, another driver takes over, the source is another topic, or a person asks for the end;
        then it has drained."""
        asked, known = 0.0, parts.source
        try:
            while not query.awaitTermination(_LOOK_EVERY_S):  # type: ignore[arg-type] # fractions are fine
                if time.monotonic() - asked >= _ASK_EVERY_S:
                    asked = time.monotonic()
                    watch.require_same()
                    if watch.known is not known:
                        known = watch.known
                        known.keep_with(parts.checkpoint)
                    parts.progress.reached(ends_of(query.lastProgress))
                if parts.order.is_given():
                    self._life.happens(Happening.STOP)
                    drain(query)
                    # A topic that the last batches were the first to read must not be taken for another one later.
                    watch.known_now().keep_with(parts.checkpoint)
                    parts.progress.reached(ends_of(query.lastProgress))
                    parts.progress.commit()
                    self._life.happens(Happening.DRAINED)
                    return
            self._life.happens(Happening.STOPPED)
        except StreamingQueryException as error:
            # What Spark says of a topic that was recreated is hard to understand.
            watch.require_same_now()
            late = begins_late(str(error), parts.source.ids.keys())
            raise parts.writing.failure or late or from_report(str(error)) from error


def _processes(spark: SparkSession) -> Mapping[str, int]:
    jvm: Any = spark._jvm
    return {"python": os.getpid(), "jvm": int(jvm.java.lang.ProcessHandle.current().pid())}


@contextmanager
def _writing(
    spark: SparkSession,
    pipeline: Pipeline,
    name: str,
    plan: StagePlan,
    checkpoint: Checkpoint,
    counts: StageCounts,
    options: RunOptions,
) -> Iterator[Writing]:
    """How the stage's batches are written, as its `replay` says."""
    stage = pipeline.stages[name]
    sink = sink_options(pipeline.kafka, stage.profile)
    if stage.replay == Replay.latest:
        yield StreamedBatches(plan, sink)
        return
    pins = PinBook(checkpoint, int(str(spark.conf.get("spark.sql.streaming.minBatchesToRetain"))))
    pins.require_kept_progress()
    if options.new_pin:
        _log.warning("batches get new pins", extra={"batches": pins.forget_unfinished()})
    topics = {rule.name: str(pipeline.tables[rule.name].topic) for rule in plan.spec.rules}
    with closing(TableEnds(topics, plan.spec.rules, librdkafka_settings(pipeline.kafka))) as ends:
        yield PinnedBatches(plan, pins, ends, sink, counts)
