"""A write-back route: one topic, or one of its retry topics, to one store."""

import logging
import threading
from contextlib import ExitStack, closing, suppress
from dataclasses import replace
from functools import partial
from typing import Any

from confluent_kafka import KafkaError

from enrich.base.errors import BadRecord, ConfigError, Fenced, Retryable
from enrich.codecs import decoder_for, registry_trouble, schemas_of
from enrich.config import Pipeline, SyncWriteback
from enrich.config.sections.kafka.client_settings import Role
from enrich.delivery.flow import Flow
from enrich.delivery.partitions.gaps import tombstones_kept_ms
from enrich.delivery.plan import FlowPlan
from enrich.delivery.refused.spill import Spill
from enrich.delivery.refused.topics import make_topics
from enrich.kafka import (
    Connection,
    DeliveringProducer,
    Topics,
    TopicSettings,
    librdkafka_settings,
    new_admin_client,
    new_group_consumer,
)
from enrich.kafka.clients.errors import ClientOver
from enrich.kafka.clients.settings import member_settings
from enrich.kafka.identity import RELEASE
from enrich.kafka.writing.room import room_in
from enrich.service.meters import Meter
from enrich.service.routes import RouteKind, RouteState, RouteStatus
from enrich.tally import NodeKind
from enrich.tally.writing import Reporter, Tallies
from stores.external import VersionedStore
from stores.protocol import Decoder
from sync_service.writeback.generation import AnotherGeneration, Gate, Generation
from sync_service.writeback.groups import adopt, committed_of
from sync_service.writeback.onward import BrokenProducer, Destinations, Onward
from sync_service.writeback.plan import Tier, WritebackPlan
from sync_service.writeback.records import RecordReader
from sync_service.writeback.sink import COUNTED, StoreSink
from sync_service.writeback.tallying import Tallying
from sync_service.writeback.writing import ParallelWriter, RowWriter

_log = logging.getLogger("enrich.sync")

_KAFKA_DEADLINE_S = 10.0
_RETRY_RECORDS = 100
# Small records take several times their size in the client's queue (see CONSUMER_QUEUE_BYTES), and each route has a
# consumer. By default the client checks a full queue again after a second: with a queue this small it would be empty by
# then at more than 40,000 records/s.
_SMALL_QUEUE = {
    "queued.min.messages": 10_000,
    "queued.max.messages.kbytes": 8_192,
    "fetch.queue.backoff.ms": 20,
}
# The largest and the least size of records that a client accepts.
_MOST_ROOM, _LEAST_MESSAGE = 1_000_000_000, 1_000


class Clients:
    """Creates the Kafka clients and the decoders of a pipeline's routes."""

    def __init__(self, pipeline: Pipeline) -> None:
        self.consumer: Connection = member_settings(pipeline.kafka)
        self.producer: Connection = librdkafka_settings(pipeline.kafka, Role.producer)
        self.common: Connection = librdkafka_settings(pipeline.kafka, Role.common)
        self.tallies = Tallies(pipeline.name, pipeline.tallies_topic, self.producer, self.topics)
        self._registry = pipeline.kafka.registry
        self._schemas = schemas_of(self._registry)

    def decoder(self, plan: WritebackPlan) -> Decoder:
        return decoder_for(plan.section, self._schemas)

    def remarks(self, section: SyncWriteback, topics: Topics) -> list[str]:
        """Warnings: what does not stop the route now but will cause trouble later."""
        found = []
        with suppress(ConfigError):  # the topic is missing, or this user may not read its settings
            settings = TopicSettings.of(topics.settings(section.topic))
            if not settings.is_compacted_only:
                policy = ",".join(sorted(settings.cleanup_policy))
                found.append(
                    f"topic {section.topic} has cleanup.policy={policy}: rows vanish from it "
                    "by age, and a reconciliation with --repair --yes then deletes them in the store; set "
                    "cleanup.policy=compact"
                )
        if str(section.format) == "avro" and str(section.framing) == "confluent":
            trouble = registry_trouble(self._registry)
            if trouble is not None:
                found.append(f"{trouble}: no record can be read without it")
        return found

    def topics(self) -> Topics:
        return Topics(new_admin_client(self.common), _KAFKA_DEADLINE_S)


class WritebackRoute:
    """See `Route`. With a tier it reads a retry topic, else the topic itself."""

    kind = RouteKind.writeback

    def __init__(self, plan: WritebackPlan, clients: Clients, tier: Tier | None = None) -> None:
        self._plan = plan
        self._clients = clients
        self._tier = tier
        self._topic = plan.section.topic if tier is None else tier.topic
        self._retry_topics = [name for name, _ in plan.retry_topics]
        following = next(iter(self._retry_topics), None) if tier is None else tier.next_topic
        self._destinations = Destinations(plan.name, plan.section.dlq, following, plan.pipeline, tier is not None)
        self._meter = Meter("records_read", (*COUNTED, "dead_letters_spilled"))
        self._flow: Flow | None = None
        self._warnings: list[str] = []
        self._gate: Gate | None = None
        self._rewinds = 0
        self._progressed_ms: int | None = None
        self._room, self._refused_room = 0, _MOST_ROOM
        """Largest record that may be sent on, in bytes, and the size that was refused before."""
        spilled = partial(self._meter.count, "dead_letters_spilled")
        self._spill = Spill(plan.directory / f"{plan.name}.dead-letters.jsonl", spilled)
        self._reporter: Reporter | None = None
        self._reader: RecordReader | None = None

    @property
    def name(self) -> str:
        return self._plan.name if self._tier is None else self._tier.name

    @property
    def clients(self) -> Clients:
        return self._clients

    def run(self, stopping: threading.Event) -> None:
        while True:
            try:
                return self._run_once(stopping)
            except AnotherGeneration as news:
                _log.warning("the route starts again: %s", news, extra={"route": self.name})

    def _run_once(self, stopping: threading.Event) -> None:
        try:
            with ExitStack() as held:
                self._run(held, stopping)
        except BrokenProducer as broken:
            if isinstance(broken.error, ClientOver | Fenced):  # the next run has another one
                raise Retryable(broken.error.what, where=broken.error.where) from broken
            if not isinstance(broken.error, BadRecord):
                raise broken.error from broken
            self._refused_room = self._room
            raise Retryable(
                f"a retry topic or the DLQ refused a record: {broken.error.what}",
                where=broken.error.where,
                next_step="it is cut and sent again",
            ) from broken
        finally:
            if self._flow is not None:
                self._rewinds += self._flow.state.rewinds
                self._progressed_ms = self._flow.state.progressed_ms or self._progressed_ms
            self._flow = None

    def _run(self, held: ExitStack, stopping: threading.Event) -> None:
        store = held.enter_context(closing(self._plan.open_store()))
        self._warnings = store.check()
        topics = self._clients.topics()
        if self._tier is None:
            self._warnings += self._clients.remarks(self._plan.section, topics)
        for warning in self._warnings:
            _log.warning(warning, extra={"route": self.name})
        plan, redis = self._plan, self._plan.section.to.redis
        expire = redis is not None and redis.ttl is not None
        names = (plan.section.topic, plan.pipeline, plan.name)
        gate = Gate(store, topics, *names, rows_expire=expire, versions=plan.versions)
        group = self._plan.group if self._tier is None else self._plan.group_of(self._topic)
        # If an offset does not exist any more, the client must report it, not silently start at another one.
        watched = {"auto.offset.reset": "error", "enable.partition.eof": True}
        settings = _SMALL_QUEUE if self._tier is not None else {**_SMALL_QUEUE, **watched}
        consumer = new_group_consumer(self._clients.consumer, group, **settings, error_cb=self._client_error)
        held.callback(consumer.close)
        if self._tier is None:
            self._gate = gate
            kept_ms = tombstones_kept_ms(self._settings(topics))
            committed = partial(committed_of, consumer, group, topics, self._topic)
            generation = gate.enter(committed, kept_ms, stopping.is_set)
        else:
            generation = gate.follow(stopping)
        make_topics(topics, plan.section.topic, plan.section.dlq, self._retry_topics, len(gate.topic_now()[1]))
        said = room_in([self._plan.section.dlq, *self._retry_topics], topics, self._clients.producer)
        self._room = said if said < self._refused_room else self._refused_room // 4
        largest = max(self._room, _LEAST_MESSAGE)
        producer = held.enter_context(DeliveringProducer({**self._clients.producer, "message.max.bytes": largest}))
        if self._tier is not None:
            adopt(self._plan, self._clients.consumer, topics, self._topic)
        # Records of a retry topic carry their versions in headers.
        counted = generation if self._tier is None else None
        keeps = self._plan.keeps_releases
        decoder, column = self._clients.decoder(self._plan), self._plan.section.version
        self._reader = reader = RecordReader(decoder, column, counted, keeps_releases=keeps)
        writer = self._writer(held, store)
        destinations = replace(self._destinations, topic_id=generation.topic_id)
        onward = Onward(producer, destinations, self._room, self._spill)
        known = (gate, generation)
        is_tier = self._tier is not None
        self._reporter = self._reporter or self._clients.tallies.reporter(NodeKind.writeback, self._plan.name)
        tallying = Tallying(self._reporter, from_retry_topic=is_tier)
        sink = StoreSink(store, writer, reader, onward, self._meter, known, tallying, is_tier=is_tier)
        self._flow = Flow.in_batches(consumer, self._flow_plan(generation, topics), sink)
        self._flow.run(stopping)

    def _writer(self, held: ExitStack, store: VersionedStore) -> ParallelWriter:
        output = self._plan.output
        more = [held.enter_context(closing(self._plan.open_store())) for _ in range(output.parallel - 1)]
        writers = [RowWriter(each.write, most=output.batch) for each in (store, *more)]
        return held.enter_context(closing(ParallelWriter(writers)))

    def _doubt_warnings(self) -> list[str]:
        doubt = None if self._gate is None else self._gate.doubt
        command = f"enrich sync reconcile {self._plan.name} -c FILE"
        return [] if doubt is None else [f"{doubt}; `{command}` compares, and repairs with --repair"]

    def _release_warnings(self) -> list[str]:
        if self._reader is None or not self._reader.has_ignored_releases:
            return []
        return [
            f"records carry the header {RELEASE}, which this route does not compare: of equal versions the first "
            "stays, also after a roll-back; give the pipeline a `release`, or the route a `release_column`"
        ]

    def _client_error(self, error: KafkaError) -> None:
        if self._flow is not None:
            self._flow.client_error(error)

    def _flow_plan(self, generation: Generation, topics: Topics) -> FlowPlan:
        if self._tier is None:
            output = self._plan.output
            most = output.batch * output.parallel
            starts, rewind_ms = generation.starts, self._plan.rewind_ms
            plan = FlowPlan(self._topic, generation.number, starts, rewind_ms, generation.born, most_records=most)
            return replace(plan, tombstones_kept_ms=tombstones_kept_ms(self._settings(topics)))
        wait_ms = round(self._tier.pause.total_seconds() * 1000)
        return FlowPlan(
            self._topic,
            0,
            {},
            self._plan.rewind_ms,
            is_watched=False,
            wait_ms=wait_ms,
            most_records=min(_RETRY_RECORDS, self._plan.output.batch),
        )

    def _settings(self, topics: Topics) -> dict[str, str] | None:
        """The topic's settings; None if this user may not read them."""
        with suppress(ConfigError):
            return dict(topics.settings(self._topic))
        return None

    def status(self) -> RouteStatus:
        flow, totals = self._flow, dict(self._meter.totals())
        warnings = [*self._warnings, *self._doubt_warnings(), *self._release_warnings()]
        if self._tier is None:  # it has the file of its retry topics, too
            warnings += self._spill.warnings
        warnings += self._clients.tallies.warnings
        details: dict[str, Any] = {"topic": self._topic, "warnings": warnings}
        totals["rewinds"] = self._rewinds + (0 if flow is None else flow.state.rewinds)
        if flow is None:
            progressed = self._progressed_ms
            return RouteStatus(self.name, self.kind, last_progress_ms=progressed, counters=totals, details=details)
        trouble, waiting = flow.state.away or flow.state.trouble, flow.waiting
        details |= {"partitions": flow.assigned, "waiting": waiting}
        return RouteStatus(
            self.name,
            self.kind,
            RouteState.running if trouble is None else RouteState.waiting,
            lag=flow.lag(),
            rows_per_s=round(self._meter.per_second(), 1),
            last_error=None if trouble is None else str(trouble),
            last_error_ms=flow.state.trouble_ms,
            last_progress_ms=flow.state.progressed_ms or self._progressed_ms,
            counters=totals,
            gauges={
                "partitions": len(flow.assigned),
                "partitions_waiting": len(waiting),
                "warnings": len(warnings),
            },
            details=details,
        )
