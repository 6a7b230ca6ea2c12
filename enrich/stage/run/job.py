"""A stage from its start to its end: what is checked, the query, its supervision, and how it is told to stop."""

import logging
import os
import signal
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field
from functools import partial
from types import FrameType
from typing import Any
from uuid import UUID

from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from enrich.base.errors import ConfigError, EnrichError, Fenced
from enrich.codecs import registry_trouble
from enrich.config import Pipeline, Replay, Stage
from enrich.kafka import Topics, librdkafka_settings, new_admin_client
from enrich.service.metrics import metrics_server
from enrich.stage.daemon import STATE_DIR
from enrich.stage.measure.counting import StageCounts
from enrich.stage.measure.metrics import StageMetrics
from enrich.stage.plan.plan import StagePlan
from enrich.stage.progress.checkpoint import Checkpoint, choose_file_manager
from enrich.stage.progress.drivers import at_work, is_at_work, wait_for_others
from enrich.stage.progress.group import StageProgress, ends_of, group_of
from enrich.stage.progress.pinning import PinBook, TableEnds
from enrich.stage.progress.source_topic import SourceTopic, SourceWatch, position_of
from enrich.stage.progress.source_versions import source_versions
from enrich.stage.progress.starting import From, starting_options
from enrich.stage.run.draining import drain, stop_now
from enrich.stage.run.event_size import typical_event_bytes
from enrich.stage.run.preload import preload
from enrich.stage.run.profiles import StageSettings, sink_options, source_options, stage_settings
from enrich.stage.run.session import stage_session
from enrich.stage.run.stopping import StopOrder
from enrich.stage.run.topics import checked_topics
from enrich.stage.run.writing import PinnedBatches, StreamedBatches, Writing
from enrich.stage.task.failures import from_report

_log = logging.getLogger(__name__)

_LOOK_EVERY_S = 0.2
_PATIENCE_S = 10.0
_ASK_EVERY_S = 1.0
"""How far the query is."""


@dataclass(frozen=True)
class RunOptions:
    """What whoever starts a stage may choose."""

    master: str | None = None
    settings: Mapping[str, str] = field(default_factory=dict)
    start: From | None = None
    new_pin: bool = False
    """The batch under way may be answered otherwise than before."""
    accept_new_source: bool = False
    """The topic of the events was made again with the same events at the same offsets."""


def run_stage(pipeline: Pipeline, name: str, options: RunOptions) -> None:
    """Runs until it is told to stop, and has drained. Raises an error of our tree when it cannot go on."""
    settings = _checked(pipeline, name, options)
    # Before Spark, which takes seconds to start, and knows of no broker that is away.
    checked_topics(pipeline, name, librdkafka_settings(pipeline.kafka))
    if str(pipeline.stages[name].source.format) == "avro":
        trouble = registry_trouble(pipeline.kafka.registry)
        if trouble is not None:
            _log.warning("events in Avro may wait for the registry", extra={"reason": str(trouble)})
    # A line and more for each batch that Spark hands to Python.
    logging.getLogger("py4j").setLevel(logging.WARNING)
    stop = threading.Event()
    with _signals_set(stop):
        spark = stage_session(
            f"enrich {pipeline.name} {name}",
            master=options.master,
            settings={
                f"spark.executorEnv.{STATE_DIR}": pipeline.state_dir,
                **settings.session,
                **options.settings,
            },
        )
        try:
            # Once more: Spark takes Ctrl-C for itself when it starts.
            with _signals_set(stop):
                run_with(spark, pipeline, name, settings, options, stop)
        finally:
            spark.stop()


def _checked(pipeline: Pipeline, name: str, options: RunOptions) -> StageSettings:
    if name not in pipeline.stages:
        known = ", ".join(pipeline.stages) or "none"
        raise ConfigError(f"there is no stage `{name}`", next_step=f"choose from {known}")
    stage = pipeline.stages[name]
    if options.new_pin and stage.replay != Replay.deterministic:
        raise ConfigError("--new-pin is for stages with replay: deterministic", where=f"stages.{name}.replay")
    return stage_settings(stage, f"stages.{name}")


def run_with(
    spark: SparkSession,
    pipeline: Pipeline,
    name: str,
    settings: StageSettings,
    options: RunOptions,
    stop: threading.Event,
) -> None:
    """The same in a session that is there already, until `stop` is set."""
    stage = pipeline.stages[name]
    connection = librdkafka_settings(pipeline.kafka)
    topic_id, partitions, limits = checked_topics(pipeline, name, connection)
    choose_file_manager(spark, stage.checkpoint)
    checkpoint = Checkpoint(spark, stage.checkpoint)
    source = SourceTopic(stage.source.topic, topic_id)
    source.require_known_to(checkpoint, accepts_another=options.accept_new_source)
    topics = Topics(new_admin_client(connection), deadline_s=_PATIENCE_S)
    written = partial(topics.written_offsets, source.topic)

    def kept(position: Mapping[int, int]) -> None:
        if position:
            source.require_kept(position, topics.start_offsets(source.topic), written())

    kept(position_of(checkpoint, source.topic))
    with ExitStack() as held:
        progress = held.enter_context(closing(StageProgress(connection, pipeline.name, name)))
        starting = starting_options(
            name,
            source.topic,
            partitions,
            has_progress=checkpoint.has_progress(),
            progress=progress,
            chosen=options.start,
            kept=kept,
        )
        versions = None
        if stage.writeback is not None and stage.writeback.version is None:
            versions = source_versions(source.topic, topic_id, len(partitions), checkpoint, progress, written)
        event_bytes = partial(typical_event_bytes, connection, stage, checkpoint)
        plan = StagePlan(spark, pipeline, name, limits, versions, event_bytes, topic_id)
        metrics = StageMetrics(pipeline.name, name, plan.spec.lookups, _processes(spark))
        counts = StageCounts(metrics)
        writing = held.enter_context(_writing(spark, pipeline, name, plan, checkpoint, counts, options))
        order = StopOrder(checkpoint, stop)
        preload(spark, plan.spec, order.is_given)
        if order.is_given():
            # A driver that runs the stage now was not shut out, and a marker is for it too.
            if not is_at_work(checkpoint):
                checkpoint.forget_stop()
            _log.info("the stage was told to stop before it began", extra={"stage": name})
            return
        progress.take_over()
        wait_for_others(checkpoint, order.is_given)
        held.enter_context(at_work(checkpoint))
        source.keep_with(checkpoint)
        position = position_of(checkpoint, source.topic)
        progress.reached({source.topic: position} if position else {})
        order.forget_old()
        if stage.metrics_port is not None:
            next_step = f"give each stage of a host another stages.{name}.metrics_port"
            server = metrics_server(stage.metrics_address, stage.metrics_port, metrics.page, next_step)
            if server is not None:
                held.callback(server.close)
        watch = held.enter_context(closing(SourceWatch(source, topics)))
        spark.streams.addListener(counts)
        query = _started(_events(spark, pipeline, name, settings, starting), writing, settings, stage, name)
        _log.info("the stage runs", extra={"stage": name, "joined_by": plan.joined_by})
        failure: EnrichError | None = None
        try:
            _supervise(query, writing, progress, watch, order)
        except EnrichError as error:
            failure = error
            raise
        finally:
            all_told = stop_now(query) and counts.wait_for_end(UUID(str(query.runId)))
            spark.streams.removeListener(counts)
            if not isinstance(failure, Fenced):  # a marker that stands there then is for the other driver
                order.obeyed(failure)
    if not all_told:
        _log.warning("Spark has not told of all batches; the totals may be short")
    _log.info("the stage has drained", extra={"stage": name, **counts.totals()})


def _processes(spark: SparkSession) -> Mapping[str, int]:
    jvm: Any = spark._jvm
    return {"python": os.getpid(), "jvm": int(jvm.java.lang.ProcessHandle.current().pid())}


def _events(
    spark: SparkSession, pipeline: Pipeline, name: str, settings: StageSettings, starting: Mapping[str, str]
) -> DataFrame:
    stage = pipeline.stages[name]
    return (
        spark.readStream.format("kafka")
        .options(**source_options(pipeline.kafka), **settings.source, **starting)
        .option("subscribe", stage.source.topic)
        .option("failOnDataLoss", "true")
        .option("includeHeaders", "true")
        .option("groupIdPrefix", group_of(pipeline.name, name))
        .load()
    )


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


def _started(events: DataFrame, writing: Writing, settings: StageSettings, stage: Stage, name: str) -> StreamingQuery:
    return (
        writing.of(events)
        .options(**settings.query)
        .option("checkpointLocation", stage.checkpoint)
        .queryName(name)
        .start()
    )


def _supervise(
    query: StreamingQuery, writing: Writing, progress: StageProgress, watch: SourceWatch, order: StopOrder
) -> None:
    """Until the query fails, another driver takes over, the source is another topic, or somebody says stop; then it has
    drained."""
    asked = 0.0
    try:
        while not query.awaitTermination(_LOOK_EVERY_S):  # type: ignore[arg-type] # fractions are fine
            if time.monotonic() - asked >= _ASK_EVERY_S:
                asked = time.monotonic()
                watch.require_same()
                progress.reached(ends_of(query.lastProgress))
            if order.is_given():
                drain(query)
                progress.reached(ends_of(query.lastProgress))
                progress.commit()
                return
    except StreamingQueryException as error:
        # What Spark says of a topic that was made again is hard to understand.
        watch.require_same_now()
        raise writing.failure or from_report(str(error)) from error


@contextmanager
def _signals_set(stop: threading.Event) -> Iterator[None]:
    def told(signum: int, frame: FrameType | None) -> None:  # noqa: ARG001 - the signature of a handler
        stop.set()

    before = {number: signal.signal(number, told) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
