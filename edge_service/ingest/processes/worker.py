"""Serves addresses in this process until it is told to stop, and says twice a second how that goes."""

import asyncio
import gc
import logging
import resource
import signal
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

import uvloop

from edge_service.ingest.entry.committing import Writer
from edge_service.ingest.entry.endpoint import IngestEndpoint
from edge_service.ingest.entry.openapi import description
from edge_service.ingest.entry.site import Site
from edge_service.ingest.entry.tallying import Tallying
from edge_service.ingest.entry.watching import MOST_BYTES, TopicState, TopicWatch
from edge_service.ingest.processes.planning import Address, endpoint_plan
from edge_service.ingest.processes.reports import EntryReport, ProcessReport, ProcessState
from edge_service.ingest.reading.formats import bodies_of
from edge_service.ingest.senders.senders import Senders
from edge_service.ingest.senders.tenants import KnownTenants, TenantRows, Tenants
from edge_service.ingest.wire.serving import Certificates, Serving, certificates_of
from enrich.base.errors import ConfigError
from enrich.config import Ingest, Pipeline, Role
from enrich.kafka import Topics, librdkafka_settings, new_admin_client
from enrich.service.program import exit_after
from enrich.tally import NodeKind
from enrich.tally.writing import Tallies

_log = logging.getLogger("enrich.ingest")

_REPORT_EVERY_S = 0.5
_FIRST_LOOK_S = 6.0
"""How long the start waits for the brokers. Longer, and it listens without them."""
_LEAVE_S = 1.0
"""How long it still takes connections after it has said that it is not ready: load balancers have to notice."""
_MOST_PATIENCE_S = 20.0
"""For answers that are due. Schedulers kill after 30 s."""
_STOP_S = 26.0
"""If stopping takes longer, something hangs: exit anyway."""
_MOST_DESCRIPTORS = 65_536
_BATCH_BYTES = 1_000_000
_TALLY_EVERY_S = 1.0
_KAFKA_DEADLINE_S = 10.0

Report = Callable[[ProcessReport], None]


class Worker:
    """The addresses of one process."""

    def __init__(
        self, pipeline: Pipeline, addresses: Sequence[Address], ports: Mapping[str, int], report: Report
    ) -> None:
        """`ports`: of each address."""
        self._pipeline = pipeline
        self._addresses = addresses
        self._ports = ports
        self._report = report
        self._entries: dict[str, Ingest] = {name: e for address in addresses for name, e in address.entries.items()}
        self._endpoints: dict[str, IngestEndpoint] = {}
        self._servings: dict[str, Serving] = {}
        self._sites: dict[str, Site] = {}
        self._tenants: dict[str, KnownTenants] = {}
        self._topics: Mapping[str, TopicState] = {}
        self._state = ProcessState.starting
        self._failure: ConfigError | None = None
        self._has_worked = False
        """Whether all topics could be written to, once."""
        self._tallies = _tallies_of(pipeline)
        self._stopping = asyncio.Event()
        self._looked = asyncio.Event()
        self._is_answered = asyncio.Event()
        """No request is under way any more, and none comes."""

    def run(self, parent: int | None = None) -> None:
        """Until SIGTERM or SIGINT. Raises ConfigError for what keeps it from starting.

        `parent`: a descriptor of a socket whose other end a parent holds. Then it ends on SIGTERM, or if the parent has
        died: nobody else would ever stop it.
        """
        # What exists now is kept for good, and need not be looked through again and again.
        _allow_many_connections()
        gc.collect()
        gc.freeze()
        # Events make no circles. Looked for as often as by default, they took a seventh of a single request's time.
        gc.set_threshold(20_000, 20, 50)
        uvloop.run(self._run(parent))

    async def _run(self, parent: int | None) -> None:
        self._loop = asyncio.get_running_loop()
        self._loop.add_signal_handler(signal.SIGTERM, self.stop)
        if parent is None:
            self._loop.add_signal_handler(signal.SIGINT, self.stop)
        else:
            # A terminal sends it to all, and the parent says when it is time.
            signal.signal(signal.SIGINT, signal.SIG_IGN)
            self._loop.add_reader(parent, self._lost, parent)
        connection = librdkafka_settings(self._pipeline.kafka, Role.producer)
        keyless = {entry.topic for entry in self._entries.values() if entry.key is None}
        watch = TopicWatch(connection, self._topic_names(), keyless, self._seen)
        certificates = {address.listen: certificates_of(address.tls) for address in self._addresses}
        watch.start()
        try:
            await _within(self._looked.wait(), _FIRST_LOOK_S)
            self._raise_failure()
            self._build(connection)
            for address in self._addresses:
                await self._listen(address, certificates[address.listen])
            self._state = ProcessState.serving
            self._telling = self._loop.create_task(until_over(self._is_answered, self._tell_what_came, _TALLY_EVERY_S))
            while not self._stopping.is_set():
                self._tell()
                await _within(self._stopping.wait(), _REPORT_EVERY_S)
                self._raise_failure()
                for each in certificates.values():
                    if each is not None and each.look():
                        _log.info("a renewed certificate is used from now on")
            await self._leave()
        finally:
            watch.stop()
            for tenants in self._tenants.values():
                tenants.close()
            await asyncio.to_thread(self._tallies.close)

    def stop(self) -> None:
        """Answers what is under way, and ends."""
        if not self._stopping.is_set():
            exit_after(_STOP_S)
        self._stopping.set()

    def _lost(self, parent: int) -> None:
        self._loop.remove_reader(parent)
        self.stop()

    async def _leave(self) -> None:
        self._state = ProcessState.leaving
        self._tell()
        await asyncio.sleep(_LEAVE_S)
        plans = [endpoint.plan for endpoint in self._endpoints.values()]
        patience_s = min(_MOST_PATIENCE_S, 1 + max(plan.body_deadline_s + plan.deadline_s for plan in plans))
        cut = await asyncio.gather(*(serving.stop(patience_s) for serving in self._servings.values()))
        if sum(cut):
            _log.warning("%d connections were cut off: they were not done after %g s", sum(cut), patience_s)
        self._is_answered.set()
        await self._telling
        self._tell()

    async def _tell_what_came(self) -> None:
        told = [(each, each.taken()) for e in self._endpoints.values() if (each := e.tallying) is not None]

        def report() -> None:
            for tallying, some in told:
                tallying.report(some)

        if told:
            await asyncio.to_thread(report)

    # What is served.

    def _build(self, connection: Mapping[str, Any]) -> None:
        writers: dict[float, Writer] = {}
        connection = self._sized(connection)
        for name, entry in self._entries.items():
            plan = endpoint_plan(self._pipeline.name, name, entry)
            if plan.deadline_s not in writers:
                writers[plan.deadline_s] = Writer(connection, self._loop, plan.deadline_s)
            self._endpoints[name] = IngestEndpoint(
                plan,
                writers[plan.deadline_s],
                self._loop,
                bodies=bodies_of(entry, self._schemas),
                senders=self._senders(entry),
                tallying=self._tallying(name, entry),
            )
        self._apply()

    def _senders(self, entry: Ingest) -> Senders | None:
        if entry.tenants is None:
            return None
        if entry.tenants not in self._tenants:
            self._tenants[entry.tenants] = KnownTenants(TenantRows(self._pipeline, entry.tenants), self._loop)
        # Before the sender is to blame for being slow.
        patience_s = min(entry.deadline.total_seconds(), entry.body_deadline.total_seconds() * 0.8)
        return Tenants(self._tenants[entry.tenants], entry.topic, self._loop, patience_s)

    def _tallying(self, name: str, entry: Ingest) -> Tallying | None:
        reporter = self._tallies.reporter(NodeKind.ingest, name)
        return None if reporter is None else Tallying(entry.topic, reporter)

    def _schemas(self) -> Any:
        from enrich.codecs import schemas_of  # late: other formats do not need it

        return schemas_of(self._pipeline.kafka.registry)

    async def _listen(self, address: Address, certificates: Certificates | None) -> None:
        endpoints = {name: self._endpoints[name] for name in address.entries}
        site = Site(endpoints, description(self._pipeline.name, address.entries))
        serving = Serving(site, self._loop)
        context = None if certificates is None else certificates.context
        await serving.start(address.host, self._ports[address.listen], context)
        self._sites[address.listen], self._servings[address.listen] = site, serving

    def _sized(self, connection: Mapping[str, Any]) -> dict[str, Any]:
        """The topics say how large a record may be, not the client's default. A batch is no larger than a record."""
        largest = [state.largest for state in self._topics.values() if state.largest is not None]
        batch = min([int(connection.get("batch.size", _BATCH_BYTES)), *largest])
        return {"message.max.bytes": MOST_BYTES, **connection, "batch.size": max(1000, batch)}

    # How the topics are.

    def _topic_names(self) -> dict[str, str]:
        """Each with the key that names it."""
        names: dict[str, str] = {}
        for name, entry in self._entries.items():
            names.setdefault(entry.topic, f"ingest.{name}.topic")
            dlq = endpoint_plan(self._pipeline.name, name, entry).dlq
            if dlq is not None:
                names.setdefault(dlq, f"ingest.{name}.dlq")
        return names

    def _seen(self, states: Mapping[str, TopicState]) -> None:
        """Called by the thread of the watch."""
        # The loop may have ended.
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._heard, states)

    def _heard(self, states: Mapping[str, TopicState]) -> None:
        if not self._has_worked:
            # What is wrong from the start is the configuration. Later it may be repaired while this waits.
            self._failure = next((s.trouble for s in states.values() if isinstance(s.trouble, ConfigError)), None)
            self._has_worked = all(state.trouble is None for state in states.values())
        self._topics = states
        self._apply()
        self._looked.set()

    def _raise_failure(self) -> None:
        if self._failure is not None:
            raise self._failure

    def _apply(self) -> None:
        for endpoint in self._endpoints.values():
            state = self._topics.get(endpoint.plan.topic)
            if state is not None and state.largest is not None:
                endpoint.largest = state.largest

    # What is reported.

    def _tell(self) -> None:
        self._report(
            ProcessReport(
                state=self._state,
                entries={name: self._entry_report(name) for name in self._entries},
                other={listen: dict(site.answers) for listen, site in self._sites.items()},
            )
        )

    def _entry_report(self, name: str) -> EntryReport:
        entry, endpoint = self._entries[name], self._endpoints[name]
        serving = self._servings.get(entry.listen)
        endpoint.figures.open = 0 if serving is None else len(serving.open)
        return EntryReport(self._trouble(entry, endpoint), endpoint.figures.copied(), self._tallies.warnings)

    def _trouble(self, entry: Ingest, endpoint: IngestEndpoint) -> str | None:
        if not self._topics:
            return "the brokers have not answered yet"
        for topic in filter(None, (entry.topic, endpoint.plan.dlq)):
            trouble = self._topics[topic].trouble
            if trouble is not None:
                return str(trouble)
        return None if entry.tenants is None else self._tenants[entry.tenants].trouble


def _tallies_of(pipeline: Pipeline) -> Tallies:
    common = librdkafka_settings(pipeline.kafka, Role.common)
    producer = librdkafka_settings(pipeline.kafka, Role.producer)

    def topics() -> Topics:
        return Topics(new_admin_client(common), _KAFKA_DEADLINE_S)

    return Tallies(pipeline.name, pipeline.tallies_topic, producer, topics)


def _allow_many_connections() -> None:
    """As many as the system lets this user have. By custom a program starts with 1,024, for the sake of `select`."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _MOST_DESCRIPTORS if hard == resource.RLIM_INFINITY else min(hard, _MOST_DESCRIPTORS)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


async def until_over(over: asyncio.Event, do: Callable[[], Awaitable[None]], every_s: float) -> None:
    """A last time when it is over: what is done then may have begun before, and have missed what came meanwhile."""
    while not over.is_set():
        await do()
        await _within(over.wait(), every_s)
    await do()


async def _within(waiting: Any, seconds: float) -> None:
    try:
        async with asyncio.timeout(seconds):
            await waiting
    except TimeoutError:
        pass
