"""Events in Spark's micro-batches: the profiles `latency` and `throughput`."""

from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from functools import partial
from logging import getLogger
from uuid import UUID

from pyspark.errors import StreamingQueryException
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

from enrich.base.errors import ConfigError, EnrichError
from enrich.config import Replay
from enrich.config.groups import stage_group
from enrich.kafka import librdkafka_settings
from enrich.kafka.releases import newest_version
from enrich.stage.measure.counting import StageCounts
from enrich.stage.plan.plan import StagePlan
from enrich.stage.progress.absurd_times import absurd_time
from enrich.stage.progress.added_topics import begins_late, enter_added
from enrich.stage.progress.group import ends_of
from enrich.stage.progress.pinning import PinBook, TableEnds
from enrich.stage.progress.source_topics import SourceTopics, position_of
from enrich.stage.progress.source_versions import SourceVersions, source_versions
from enrich.stage.progress.source_watch import SourceWatch
from enrich.stage.progress.starting import begin_as_chosen, starting_options, starts_from_own_group
from enrich.stage.realtime.assignment import each_partition
from enrich.stage.realtime.commits import read_commits
from enrich.stage.realtime.progress import MARK
from enrich.stage.realtime.taking_over import take_from_slots
from enrich.stage.run.draining import drain, stop_now
from enrich.stage.run.start import Start
from enrich.stage.run.topics import require_allowed
from enrich.stage.run.writing import PinnedBatches, StreamedBatches, Writing
from enrich.stage.spark.profiles import sink_options, source_options, subscription
from enrich.stage.spark.refusals import begun_by_spark
from enrich.stage.task.failures import from_report

_log = getLogger(__name__)

_NOT_ALLOWED = "AuthorizationException"
"""In the names of the Kafka client's exceptions."""
_LOST = "Some data may have been lost"
"""Spark's words for events that are gone, without saying which."""


class BatchFlow:
    """See `Flow`."""

    def __init__(self, start: Start) -> None:
        """Checks what is left to check."""
        stage, found, checkpoint = start.stage, start.found, start.checkpoint
        if checkpoint.read(MARK) is not None:
            raise ConfigError(
                "the checkpoint is one of profile: realtime, whose progress is in the consumer group",
                where=f"stages.{start.name}.checkpoint",
                next_step="name another checkpoint, and start with --from group: nothing is left out or repeated",
            )
        self._start = start
        self.source = SourceTopics(found.ids)
        if checkpoint.has_progress():
            self._require_newest_progress()
        if start.options.start is None or checkpoint.has_progress():
            accepts = start.options.accept_new_source
            self.source = self.source.continued(checkpoint, stage.source.reads, accepts_another=accepts)
            position = position_of(checkpoint)  # if there is no batch yet, also of topics that are not read any more
            start.require_kept({topic: position[topic] for topic in self.source.ids if topic in position})
        self._first_topics = frozenset(self.source.ids)
        self._starting = self._starting_now()
        self.plan = StagePlan(
            start.spark, start.pipeline, start.name, found.limits, self._versions(), self.source.ids_in_letters
        )
        self.metrics = start.new_metrics(self.plan)
        self._counts = StageCounts(self.metrics)
        self._writing = start.held.enter_context(_writing(start, self.plan, self._counts))
        # Spark plans for seconds, and by now this process only waits for tables to be loaded.
        self._planning = start.held.enter_context(ThreadPoolExecutor(1, thread_name_prefix="planning"))
        self._planned = self._planning.submit(self._plan_query)
        self._query: StreamingQuery | None = None
        self._watch: SourceWatch | None = None

    def shut_out(self) -> None:
        """Slots, if the stage ran with another profile. Spark's sink itself has no transactions."""
        start = self._start
        take_from_slots(start.connection, start.progress.group, each_partition(start.found.partitions))

    def take_over(self) -> None:
        start, is_pinned = self._start, self._start.stage.replay == Replay.deterministic
        if starts_from_own_group(start.options.start) and (starting := self._starting_now()) != self._starting:
            # The driver that is shut out now has gone on since.
            self._starting = starting
            self._planned = self._planning.submit(self._plan_query)
        begin_as_chosen(start.checkpoint, start.name, start.options.start)
        enter_added(
            start.checkpoint,
            self.source.ids.keys(),
            start.topics.start_offsets,
            is_pinned=is_pinned and not start.options.new_pin,
        )
        self.source.keep_with(start.checkpoint)
        if start.checkpoint.has_progress():
            # Not the place where a query without a batch would begin: the group says that the stage has run.
            start.progress.reached(position_of(start.checkpoint))

    def begin(self, watch: SourceWatch) -> None:
        self._watch = watch
        self._start.spark.streams.addListener(self._counts)
        writer = self._planned.result()
        with begun_by_spark(self._start.name):
            self._query = writer.start()

    def has_ended(self, within_s: float) -> bool:
        try:
            return bool(self._running.awaitTermination(within_s))  # type: ignore[arg-type] # fractions are fine
        except StreamingQueryException as error:
            raise self._failure(error) from error

    def look(self) -> None:
        if self._watching.known is not self.source:
            self.source = self._watching.known
            self.source.keep_with(self._start.checkpoint)
        self._start.progress.reached(ends_of(self._running.lastProgress))

    def drain(self) -> None:
        try:
            drain(self._running)
        except StreamingQueryException as error:
            raise self._failure(error) from error
        # A topic that the last batches were the first to read must not be taken for another one later.
        self._watching.known_now().keep_with(self._start.checkpoint)
        self._start.progress.reached(ends_of(self._running.lastProgress))
        self._start.progress.commit()

    def end(self, failure: EnrichError | None) -> bool:  # noqa: ARG002 - a query is stopped whatever has happened
        if self._query is None:
            return True
        all_reported = stop_now(self._query) and self._counts.wait_for_end(UUID(str(self._query.runId)))
        self._start.spark.streams.removeListener(self._counts)
        return all_reported

    def totals(self) -> Mapping[str, int]:
        return self._counts.totals()

    def _failure(self, error: StreamingQueryException) -> EnrichError:
        # What Spark says of a topic that was recreated, or that this user may not use any more, is hard to understand.
        self._watching.require_same_now()
        if _NOT_ALLOWED in str(error):
            require_allowed(self._start.pipeline, self._start.name, self._start.connection)
        text = str(error)
        known = absurd_time(text) or self._writing.failure or begins_late(text, self._first_topics)
        if known is None and _LOST in text:
            self._start.require_kept(position_of(self._start.checkpoint))
        return known or from_report(text)

    @property
    def _watching(self) -> SourceWatch:
        if self._watch is None:
            raise RuntimeError("the query has not begun")
        return self._watch

    @property
    def _running(self) -> StreamingQuery:
        if self._query is None:
            raise RuntimeError("the query has not begun")
        return self._query

    def _starting_now(self) -> Mapping[str, str]:
        start = self._start
        return starting_options(
            start.name,
            start.found.partitions,
            has_progress=start.checkpoint.has_progress(),
            progress=start.progress,
            chosen=start.options.start,
            kept=start.require_kept,
        )

    def _require_newest_progress(self) -> None:
        """Not that of before the stage ran with slots, as after a roll-back. Raises ConfigError."""
        start, position = self._start, position_of(self._start.checkpoint)
        commits = read_commits(start.connection, start.progress.group, each_partition(start.found.partitions))
        again = 0
        for (topic, number), commit in commits.items():
            behind = commit.offset - position.get(topic, {}).get(number, commit.offset)
            if behind <= 0:
                continue
            if commit.note is not None:
                raise ConfigError(
                    "the stage has gone on since with profile: realtime: from this checkpoint on, events would be "
                    "processed once more",
                    where=f"stages.{start.name}.checkpoint",
                    next_step="name another checkpoint, and start with --from group: nothing is left out or repeated; "
                    "or, if they should be processed once more, move the checkpoint away and start with --from and a "
                    "time",
                )
            again += behind
        if again:
            # Not refused: a killed driver leaves the same, as with async progress not every batch is recorded.
            _log.warning(
                "the checkpoint is behind the consumer group: what lies between is processed once more",
                extra={
                    "offsets": again,
                    "group": start.progress.group,
                    "next": "nothing after a kill, or to repeat it; but if the stage has gone on with another "
                    "checkpoint since, stop it and name that one",
                },
            )

    def _plan_query(self) -> DataStreamWriter:
        start, stage = self._start, self._start.stage
        reader = (
            start.spark.readStream.format("kafka")
            .options(**source_options(start.pipeline.kafka), **start.settings.source, **self._starting)
            .options(**subscription(stage.source))
            .option("failOnDataLoss", "true")
            .option("includeHeaders", "true")
            .option("groupIdPrefix", stage_group(start.pipeline.name, start.name))
        )
        with begun_by_spark(start.name):
            events = reader.load()
        writer = self._writing.of(events).options(**start.settings.query)
        return writer.option("checkpointLocation", stage.checkpoint).queryName(start.name)

    def _versions(self) -> SourceVersions | None:
        start, stage = self._start, self._start.stage
        if stage.writeback is None or stage.writeback.version is not None:
            return None
        ((topic, topic_id),) = self.source.ids.items()  # the configuration refuses several
        written = partial(start.topics.written_offsets, topic)
        count = len(start.found.partitions[topic])
        before = newest_version(start.connection, start.topics, stage.writeback.topic)
        return source_versions(topic, topic_id, count, start.checkpoint, start.progress, written, before)


@contextmanager
def _writing(start: Start, plan: StagePlan, counts: StageCounts) -> Iterator[Writing]:
    """How the stage's batches are written, as its `replay` says."""
    stage, spark, kafka = start.stage, start.spark, start.pipeline.kafka
    sink = sink_options(kafka, stage.profile)
    if stage.replay == Replay.latest:
        yield StreamedBatches(plan, sink)
        return
    pins = PinBook(start.checkpoint, int(str(spark.conf.get("spark.sql.streaming.minBatchesToRetain"))))
    pins.require_kept_progress()
    if start.options.new_pin:
        _log.warning("batches get new pins", extra={"batches": pins.forget_unfinished()})
    topics = {rule.name: str(start.pipeline.tables[rule.name].topic) for rule in plan.spec.rules}
    with closing(TableEnds(topics, plan.spec.rules, librdkafka_settings(kafka))) as ends:
        yield PinnedBatches(plan, pins, ends, sink, counts)
