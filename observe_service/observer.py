"""The observer at work: reports in, verdicts out, once a second."""

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from enrich.admin.rating.rating import kept
from enrich.base.backoff import Backoff
from enrich.base.errors import EnrichError
from enrich.config import Pipeline, Role
from enrich.kafka import Connection, Topics, librdkafka_settings, new_admin_client
from enrich.tally import Node, Origins, minute_of
from enrich.tally.writing import PARTITIONS, TOPIC_SETTINGS
from enrich.verdict import MinuteVerdict, minute_text
from enrich.verdict.summary import Summary
from enrich.verdict.ways import readers_of, ways_of
from observe_service.alarms.board import Action, Alarm
from observe_service.clock import Clock
from observe_service.verdicts.gaps import Gaps
from observe_service.verdicts.lots import MINUTE_MS
from observe_service.verdicts.observation import KEPT_MINUTES, Observation
from observe_service.verdicts.standing import Sla
from observe_service.watching.ends import EndsWatch, Look, Reads
from observe_service.watching.records import Records
from observe_service.watching.reports import Reports
from observe_service.watching.verdict_log import VerdictLog, Written

_log = logging.getLogger("enrich.observe")

_TICK_S = 1.0
_POLL_S = 0.25
_CHECKPOINT_S = 15.0
_FIRST_MS = 240_000
"""How far back an observer reads that has no verdicts of one before it: nodes may have said the same later."""
_DEADLINE_S = 10.0


class Listener(Protocol):
    """Who makes something of the verdicts. Called by the observer's thread."""

    def remembered(self, summaries: Sequence[Summary]) -> None:
        """As they are read, before the observer begins."""

    def began(self, written: Written, write_alarm: Callable[[Alarm], None]) -> None: ...

    def judged(self, verdicts: Sequence[MinuteVerdict]) -> None:
        """Once a second, whether there are any or not."""

    def announced(self, actions: Sequence[Action]) -> None: ...


@dataclass
class Health:
    """Of the observer itself, for its page."""

    started_s: float = field(default_factory=time.time)
    is_ready: bool = False
    trouble: Mapping[str, str] = field(default_factory=dict)
    """What does not work now, and why."""
    since_s: float | None = None
    reports: int = 0
    report_bytes: int = 0
    verdicts: int = 0
    unreadable: int = 0
    log_ms: int = 0
    """Up to then all that nodes have said is known."""


class Observer:
    def __init__(self, pipeline: Pipeline, listener: Listener, clock: Clock | None = None) -> None:
        """Opens no connection."""
        observe, topic = pipeline.observe, pipeline.tallies_topic
        if observe is None or topic is None:
            raise ValueError("the pipeline has no observer")
        self.pipeline = pipeline
        self.health = Health()
        self.ratings: Sequence[Mapping[str, Any]] | None = None
        """None: they have not been read yet."""
        self.clock = clock or Clock()
        self.lock = threading.RLock()
        """Over the observation: the page reads it too."""
        self._settle_ms = round(observe.loss.settle.total_seconds() * 1000)
        self._sla = Sla(round(observe.sla.p95.total_seconds() * 1000))
        self.observation = Observation(ways_of(pipeline), self._settle_ms, self._sla)
        self._listener = listener
        self._keep = observe.loss.keep
        self._topic = topic
        self._consumer: Connection = librdkafka_settings(pipeline.kafka, Role.consumer)
        self._producer: Connection = librdkafka_settings(pipeline.kafka, Role.producer)
        self._common: Connection = librdkafka_settings(pipeline.kafka, Role.common)
        self._looks: deque[Look] = deque(maxlen=600)
        self._stopping = threading.Event()
        self._gaps = Gaps()
        self._given_up: int | None = None

    def stop(self) -> None:
        self._stopping.set()

    def run(self) -> None:
        """Until it is stopped. While the brokers are away it waits for them."""
        backoff = Backoff(0.5, 10.0)
        while not self._stopping.is_set():
            try:
                self._observe()
            except EnrichError as error:
                self._troubled({"kafka": str(error)})
                self._stopping.wait(backoff.next_s())

    def _observe(self) -> None:
        topics = Topics(new_admin_client(self._common), _DEADLINE_S)
        topics.ensure(self._topic, partitions=PARTITIONS, config=TOPIC_SETTINGS)
        log = VerdictLog(self._consumer, self._producer, topics, self.pipeline.minutes_topic, self._keep, self.clock)
        log.begin()
        minute = minute_of(self.clock.now_ms())
        written = log.read(minute - KEPT_MINUTES, self._listener.remembered)
        checkpoint, restored = written.checkpoint, len(written.records)
        from_ms = minute * MINUTE_MS - _FIRST_MS if checkpoint is None else checkpoint.from_ms
        with self.lock:
            self.observation, self._gaps = Observation(ways_of(self.pipeline), self._settle_ms, self._sla), Gaps()
            for verdict in written.verdicts():
                self.observation.restore(verdict)
            if checkpoint is None:
                self.observation.begin(minute)
            else:
                self.observation.resume(checkpoint, minute - KEPT_MINUTES)
                self.observation.begun_ms = self.clock.now_ms()
        self._listener.began(written, log.write_alarm)
        of_nodes = readers_of(self.pipeline)
        readers: dict[Node | None, Reads] = {None: self._topic.__eq__, **{node: of_nodes[node] for node in of_nodes}}
        ends = EndsWatch(topics, readers, self._looks.append, self.clock)
        for node, bases in ends.bases(from_ms).items():
            if node is not None:
                self.observation.reached.begin(node, bases)
        reports = Reports(self._consumer, topics, self._topic)
        reports.begin(from_ms)
        records = Records(self._consumer, topics)
        ends.start()
        self.health.is_ready = True
        _log.info("observing", extra={"ways": len(self.observation.ways), "verdicts": restored})
        del written  # they would stay for as long as it observes
        try:
            self._go_on(topics, reports, ends, records, log)
        finally:
            ends.stop()
            records.close()
            reports.close()
            log.close()

    def _go_on(self, topics: Topics, reports: Reports, ends: EndsWatch, records: Records, log: VerdictLog) -> None:
        due_s = checkpoint_s = 0.0
        trouble: str | None = None
        while not self._stopping.is_set():
            said = reports.poll(_POLL_S)
            with self.lock:
                for one in said:
                    self.observation.take(one.report, one.at_ms)
            self.health.reports += len(said)
            self.health.report_bytes += sum(one.size for one in said)
            if time.monotonic() < due_s:
                continue
            due_s = time.monotonic() + _TICK_S
            verdicts = self._tick(reports)
            try:
                self._look_into_gaps(records)
                trouble = None
            except EnrichError as error:
                trouble = str(error)
            is_due = time.monotonic() >= checkpoint_s
            if is_due:
                checkpoint_s = time.monotonic() + _CHECKPOINT_S
            log.write(verdicts, self.observation.checkpoint(reports.until_ms) if is_due else None)
            self.health.verdicts += len(verdicts)
            self.health.unreadable = reports.unreadable
            troubles = {"tallies": reports.trouble, "topics": ends.trouble or trouble, "verdicts": log.trouble}
            self._troubled({name: trouble for name, trouble in troubles.items() if trouble is not None})
            if is_due:
                try:
                    self._listener.announced(log.read_on().actions)
                    self.ratings = kept(self.pipeline, topics, self._consumer)
                except EnrichError as error:  # what people have announced is not known now, and all else is
                    _log.info("announced actions cannot be read: %s", error)
            self._listener.judged(verdicts)

    def _tick(self, reports: Reports) -> Sequence[MinuteVerdict]:
        with self.lock:
            while self._looks:
                look = self._looks.popleft()
                reports.at_ends(
                    look.at_ms, {place[1]: end for place, end in look.ends.items() if place[0] == self._topic}
                )
                for topic in self.observation.identify(look.ids, look.at_ms):
                    _log.warning("a topic was made again: all of it is judged anew", extra={"topic": topic})
                    if topic == self._topic:
                        reports.made_again()
                self.observation.look(look.at_ms, look.ends, look.topics_of)
            verdicts = self.observation.tick(reports.until_ms, self.clock.now_ms())
            self.health.log_ms = reports.until_ms
            given_up, self._given_up = self._given_up, self.observation.given_up
        if given_up is None and self._given_up is not None:
            _log.warning(
                "too many events are lost, dead or wait: what becomes of those of older minutes is not followed",
                extra={"minute": minute_text(self._given_up)},
            )
        return verdicts

    def _look_into_gaps(self, records: Records) -> None:
        for node in self.observation.nodes:
            with self.lock:
                reads = self.observation.books.reads.get(node, Origins())
                empty = self.observation.empty.get(node, Origins())
                due = self._gaps.due(node, self.observation.reached, reads, time.monotonic(), empty)
            if not due:
                continue
            found, nothing = records.within(due)
            with self.lock:
                self._gaps.looked(node, self.observation.reached, found)
                self.observation.nothing_there(node, nothing)

    def _troubled(self, trouble: Mapping[str, str]) -> None:
        if trouble and not self.health.trouble:
            self.health.since_s = time.time()
            _log.warning("cannot observe: %s", "; ".join(trouble.values()))
        elif self.health.trouble and not trouble:
            self.health.since_s = None
            _log.info("observing again")
        self.health.trouble = trouble
