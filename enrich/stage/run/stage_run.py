"""One run of a stage: from its checks to the end of its flow of events. What comes after what: life.py."""

import logging
import threading
import time
from collections.abc import Mapping
from contextlib import ExitStack, closing
from typing import Any

from pyspark.sql import SparkSession

from enrich.base.errors import EnrichError, Fenced
from enrich.config import Pipeline, Profile
from enrich.kafka import Topics, librdkafka_settings, new_admin_client
from enrich.service.page import Page, serve_page
from enrich.stage.progress.checkpoint import Checkpoint, choose_file_manager
from enrich.stage.progress.drivers import at_work, is_at_work, wait_for_others
from enrich.stage.progress.group import StageProgress
from enrich.stage.progress.owner import claim, require_own
from enrich.stage.progress.source_watch import SourceWatch
from enrich.stage.run.batches import BatchFlow
from enrich.stage.run.flow import Flow
from enrich.stage.run.life import Happening, Phase, new_life
from enrich.stage.run.preload import preload
from enrich.stage.run.slots import SlotFlow
from enrich.stage.run.start import RunOptions, Start
from enrich.stage.run.stopping import StopOrder, still_ending
from enrich.stage.run.topics import checked_topics, warn_of_higher_release, written_topics
from enrich.stage.spark.profiles import StageSettings

_log = logging.getLogger(__name__)

_LOOK_EVERY_S = 0.2
_PATIENCE_S = 10.0
_ASK_EVERY_S = 1.0
"""How far the events are."""


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
        self._life = new_life()

    @property
    def phase(self) -> Phase:
        return self._life.state

    def run(self) -> None:
        """Returns once it has drained. Raises an error of our tree when it cannot go on."""
        with ExitStack() as held:
            try:
                start = self._begun(held)
                flow: Flow = (SlotFlow if self._stage.profile == Profile.realtime else BatchFlow)(start)
                order = StopOrder(start.checkpoint, self._stop)
                preload(self._spark, flow.plan.spec, order.is_given)
                if order.is_given():
                    self._end_before_it_began(start)
                    return
                self._life.happens(Happening.READY)
                self._shut_out_others(start, flow, order)
                if order.is_given():
                    self._end_before_it_took_over(start, order)
                    return
                self._take_over(start, flow, order)
                self._life.happens(Happening.ALONE)
                all_reported = self._run(start, flow, order)
            except Exception:
                self._life.happens(Happening.FAILED)
                raise
        if not all_reported:
            _log.warning("Spark has not reported all batches; the totals may be short")
        _log.info("the stage has drained", extra={"stage": self._name, **flow.totals()})

    def _begun(self, held: ExitStack) -> Start:
        """Checks what can be checked while another driver may still run."""
        connection = librdkafka_settings(self._pipeline.kafka)
        found = checked_topics(self._pipeline, self._name, connection)
        choose_file_manager(self._spark, self._stage.checkpoint)
        checkpoint = Checkpoint(self._spark, self._stage.checkpoint)
        require_own(checkpoint, self._pipeline.name, self._name)
        topics = Topics(new_admin_client(connection), deadline_s=_PATIENCE_S)
        warn_of_higher_release(self._pipeline, self._name, topics, connection)
        progress = held.enter_context(closing(StageProgress(connection, self._pipeline.name, self._name)))
        own = (self._spark, self._pipeline, self._name, self._settings, self._options)
        return Start(*own, connection, checkpoint, topics, found, progress, held)

    def _end_before_it_began(self, start: Start) -> None:
        # A driver that runs the stage now was not shut out, and a marker is for it too.
        if not is_at_work(start.checkpoint):
            start.checkpoint.forget_stop()
        self._life.happens(Happening.STOP)
        _log.info("the stage was told to stop before it began", extra={"stage": self._name})

    @staticmethod
    def _shut_out_others(start: Start, flow: Flow, order: StopOrder) -> None:
        """The driver before this one. Returns once it has ended, or when the stage is told to stop."""
        start.progress.take_over()
        flow.shut_out()
        wait_for_others(start.checkpoint, order.is_given)

    def _end_before_it_took_over(self, start: Start, order: StopOrder) -> None:
        # The driver before is shut out, and leaves a marker to this one. It may still be at work on its last batch: the
        # checkpoint stays as it is.
        order.obeyed(still_ending() if is_at_work(start.checkpoint) else None)
        self._life.happens(Happening.STOP)
        _log.info("the stage was told to stop before it took over", extra={"stage": self._name})

    @staticmethod
    def _take_over(start: Start, flow: Flow, order: StopOrder) -> None:
        claim(start.checkpoint, start.pipeline.name, start.name)
        start.held.enter_context(at_work(start.checkpoint))
        # Two that began at once have both found nobody. From now on one that is older waits for the other's end.
        start.progress.require_newest(next(iter(start.found.partitions)))
        flow.take_over()
        order.forget_old()

    def _run(self, start: Start, flow: Flow, order: StopOrder) -> bool:
        """Lets events flow until that ends. Returns whether all of them are counted."""
        stage = self._stage
        if stage.metrics_port is not None:
            next_step = f"give each stage of a host another stages.{self._name}.metrics_port"
            server = serve_page(stage.metrics_address, stage.metrics_port, self._page(flow), next_step)
            if server is not None:
                start.held.callback(server.close)
        matches = None if stage.source.topic_pattern is None else stage.source.reads
        written = written_topics(stage)
        watch = start.held.enter_context(closing(SourceWatch(flow.source, start.topics, matches, written)))
        failure: EnrichError | None = None
        try:
            flow.begin(watch)
            _log.info("the stage runs", extra={"stage": self._name, "joined_by": flow.plan.joined_by})
            self._supervise(flow, watch, order)
        except EnrichError as error:
            failure = error
            raise
        finally:
            all_reported = flow.end(failure)
            if not isinstance(failure, Fenced):  # then a marker is for the driver that took over
                order.obeyed(failure)
        return all_reported

    def _page(self, flow: Flow) -> Page:
        def status() -> Mapping[str, Any]:
            run = {"pipeline": self._pipeline.name, "stage": self._name, "phase": self.phase}
            return {**run, "joined_by": flow.plan.joined_by, **flow.totals(), **flow.metrics.lags()}

        def not_ready() -> Mapping[str, str | None]:
            return {} if self.phase == Phase.RUNNING else {"stage": self.phase}

        return Page(flow.metrics.exposition, status, not_ready=not_ready)

    def _supervise(self, flow: Flow, watch: SourceWatch, order: StopOrder) -> None:
        """Until the flow fails, another driver takes over, the source is another topic, or a person asks for the end;
        then it has drained."""
        asked = 0.0
        while not flow.has_ended(_LOOK_EVERY_S):
            if time.monotonic() - asked >= _ASK_EVERY_S:
                asked = time.monotonic()
                watch.require_same()
                flow.look()
            if order.is_given():
                self._life.happens(Happening.STOP)
                flow.drain()
                self._life.happens(Happening.DRAINED)
                return
        self._life.happens(Happening.STOPPED)
