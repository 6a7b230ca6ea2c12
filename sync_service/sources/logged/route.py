"""A source that follows the log, as a route: waits for its turn, fences who was there before, compares if it must, then
follows until it is stopped."""

import logging
import threading
from collections.abc import Callable
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace

from enrich.codecs.encoding import Encoder
from enrich.kafka import Topics, new_admin_client
from enrich.kafka.releases import release_headers, warn_if_fallen
from enrich.kafka.writing.transactions import TransactionalProducer
from enrich.service.routes import RouteKind, RouteStatus
from stores.clock import SystemClock
from stores.external.postgres.log.slots import Slots
from stores.external.postgres.log.stream import ReplicationStream
from stores.external.postgres.reading import PostgresReader
from sync_service.sources.known.catching_up import facts_of
from sync_service.sources.known.deletions import DeleteGuard
from sync_service.sources.logged.comparing import Comparing, TableRows
from sync_service.sources.logged.following import Following, Tools, shape_of
from sync_service.sources.logged.place import Place, Places
from sync_service.sources.reporting import StatusReporter
from sync_service.sources.route import Connections, SourceWork, in_turn

_log = logging.getLogger("enrich.sync")

_LONGEST_S = 900.0
"""A large transaction of the database takes its time. It is the most that brokers allow unless told otherwise."""


@dataclass(frozen=True)
class LoggedTable:
    """What is followed."""

    dsn: str
    table: str
    key: tuple[str, ...]
    columns: tuple[str, ...] | None
    slot: str
    """The name of the slot, and of its publication."""


class LogRoute:
    """However many instances run, only one is active."""

    kind = RouteKind.source

    def __init__(
        self, work: SourceWork, connections: Connections, encoder: Callable[[], Encoder], logged: LoggedTable
    ) -> None:
        self._work = work
        self._connections = connections
        self._new_encoder = encoder
        self._logged = logged
        self._reporter = StatusReporter(work.name)

    @property
    def name(self) -> str:
        return self._work.name

    def status(self) -> RouteStatus:
        return self._reporter.status

    def run(self, stopping: threading.Event) -> None:
        work, admin = self._work, new_admin_client(self._connections.common)
        turn = in_turn(work, self._connections, admin, self._reporter, stopping)
        with turn as checkpoint, ExitStack() as held:
            if checkpoint is not None:
                self._work_on(Topics(admin), held, checkpoint)

    def _work_on(self, topics: Topics, held: ExitStack, checkpoint: Callable[[], None]) -> None:
        work, logged, encoder = self._work, self._logged, self._new_encoder()
        headers = release_headers(work.release)
        producer = TransactionalProducer(
            self._connections.producer, work.identity, timeout_s=_LONGEST_S, headers=headers
        )
        held.callback(producer.close)
        # This comes first: it fences other writers, so what is then read from the topic is all there is.
        producer.start()
        facts = facts_of(topics, work.topic, self._connections.producer)
        warn_if_fallen(_log, work.release, self._connections.consumer, topics, [work.topic], route=work.name)
        slots = held.enter_context(closing(Slots(logged.dsn, logged.slot)))
        slots.require_settings()
        table = slots.table(logged.table, logged.key)
        if slots.publish(table):
            # What came before is not for this publication, and a slot from before it knows of none.
            slots.drop()
            # Of transactions that write now the log may leave something out.
            slots.wait_for_running(checkpoint)
        places = held.enter_context(closing(Places(self._connections.consumer, f"{work.identity}.log", work.topic)))
        stream = held.enter_context(closing(ReplicationStream(logged.dsn)))
        place = self._place(slots, stream, places.read())
        stream.start(logged.slot, logged.slot, place.at)
        reader = PostgresReader(logged.dsn)
        rows = TableRows(table.name, logged.key, logged.columns, table.generated)
        guard = DeleteGuard(work.directory, work.delete_guard, where=f"source {work.name}", next_step=work.confirm)
        consuming = self._connections.consumer

        def shape() -> str:
            return shape_of(slots.columns(table))

        comparing = Comparing(rows, shape, encoder, reader, producer, topics, facts, consuming, guard, work.directory)
        largest = facts.largest
        tools = Tools(
            stream, slots, reader, producer, places, rows, table.id, shape, encoder, work.topic, largest, self._reporter
        )
        following = Following(tools, place)

        def alive() -> None:
            stream.keep_alive()
            checkpoint()

        why, is_sure = None if place.shape else "there is no place in the log to go on from", False
        while True:
            if why is not None:
                _log.info("the topic is compared with the table: %s", why, extra={"route": work.name})
                self._compare(comparing, following, tools, alive, is_sure=is_sure)
            following.step(alive)
            checkpoint()
            why, is_sure, following.must_compare = following.must_compare, True, None

    def _note(self, following: Following, place: Place, tools: Tools) -> None:
        following.place = place
        with tools.producer.transaction():
            tools.places.write(place, tools.producer)

    def _place(self, slots: Slots, stream: ReplicationStream, known: Place | None) -> Place:
        """Where to go on, or where to begin: then it has no shape."""
        slot, here = slots.slot(), (stream.system, stream.timeline, slots.name)
        # Versions rise even if the log of another database begins lower.
        begin = (
            Place(*here, 0, "") if known is None else Place(*here, 0, "", version=known.version, time_ms=known.time_ms)
        )
        if slot is not None and slot.is_lost:
            _log.warning("PostgreSQL has removed what the slot needs: all is compared", extra={"slot": slots.name})
            slots.drop()
            slot = None
        if slot is None:
            return replace(begin, at=slots.make())
        if known is None or (known.system, known.timeline, known.slot) != here or slot.confirmed > known.at:
            # Somebody has made the slot again, or has read from it: what it has passed is nowhere else.
            return replace(begin, at=slot.confirmed)
        return known

    def _compare(
        self, comparing: Comparing, following: Following, tools: Tools, alive: Callable[[], None], *, is_sure: bool
    ) -> None:
        if following.place.shape:
            # If it is interrupted, it must begin again before anything of the log follows what it has written.
            self._note(following, replace(following.place, shape=""), tools)
        snapshot, counts, rows = comparing.run(following.applied, following.place.version, alive, is_sure=is_sure)
        place = replace(
            following.place,
            shape=snapshot.shape,
            seen=snapshot.seen,
            seen_until=snapshot.until,
            version=snapshot.version,
            time_ms=SystemClock().now_ms(),
        )
        self._note(following, place, tools)
        self._reporter.count(
            readings=1,
            rows_read=counts.read,
            rows_written=counts.changed + counts.missing,
            rows_deleted=counts.missing,
            rows_rejected=counts.rejected,
        )
        warnings = [f"{number} rows cannot become records: {reason}" for reason, number in counts.reasons.items()]
        self._reporter.describe({"rows": rows, "rejected": counts.rejected}, {"warnings": warnings})
        self._reporter.progressed(lag=0)
