"""A source that follows the log, as a route: waits for its turn, fences who was there before, compares if it must, then
follows until it is stopped."""

import logging
import threading
from collections.abc import Callable
from contextlib import ExitStack, closing
from dataclasses import dataclass

from enrich.base.errors import ConfigError, Retryable
from enrich.kafka import Connection, Topics, new_admin_client
from enrich.kafka.releases import newest_version, release_headers, warn_if_fallen
from enrich.kafka.writing.transactions import TransactionalProducer
from enrich.service.routes import RouteKind, RouteStatus
from stores.external.postgres.log.slots import Slots
from stores.external.postgres.log.stream import ReplicationStream
from stores.external.postgres.reading import PostgresReader
from sync_service.sources.logged.comparing import Comparing
from sync_service.sources.logged.encoders import Encoders
from sync_service.sources.logged.followed.tables import Tables
from sync_service.sources.logged.following import Following, Tools
from sync_service.sources.logged.keeping import Keeping
from sync_service.sources.logged.place import Place
from sync_service.sources.logged.working import Parts, Working
from sync_service.sources.reporting import StatusReporter
from sync_service.sources.route import Connections, SourceWork, in_turn

_log = logging.getLogger("enrich.sync")

_LONGEST_S = 900.0
"""A large transaction of the database takes its time. It is the most that brokers allow unless told otherwise."""
_SHARE = 0.8
"""What is copied after this part of it is given up: it could not be committed."""


@dataclass(frozen=True)
class LogFollowed:
    """What is followed. The functions are called for each run."""

    dsn: str
    slot: str
    """The name of the slot, and of its publication."""
    encoders: Callable[[], Encoders]
    tables: Callable[[Slots, Topics], Tables]
    producing: Callable[[Topics], Connection]
    """The settings of the producer."""
    keeping: Callable[[Topics], Keeping]
    prepare: Callable[[Topics], None]
    """Makes the topic in which instances wait for their turn, if that is the source's own."""
    lock_s: float
    """How long a comparison waits for a table that somebody locks."""


class LogRoute:
    """However many instances run, only one is active."""

    kind = RouteKind.source

    def __init__(self, work: SourceWork, connections: Connections, followed: LogFollowed) -> None:
        self._work = work
        self._connections = connections
        self._followed = followed
        self._reporter = StatusReporter(work.name)

    @property
    def name(self) -> str:
        return self._work.name

    def status(self) -> RouteStatus:
        return self._reporter.status

    def run(self, stopping: threading.Event) -> None:
        work, admin = self._work, new_admin_client(self._connections.common)
        topics = Topics(admin)
        self._followed.prepare(topics)
        turn = in_turn(work, self._connections, admin, self._reporter, stopping)
        with turn as checkpoint, ExitStack() as held:
            if checkpoint is not None:
                self._work_on(topics, held, checkpoint, stopping.is_set)

    def _work_on(
        self, topics: Topics, held: ExitStack, checkpoint: Callable[[], None], stopping: Callable[[], bool]
    ) -> None:
        work, followed, connections = self._work, self._followed, self._connections
        encoders = followed.encoders()
        headers = release_headers(work.release)
        producing = followed.producing(topics)
        producer = TransactionalProducer(producing, work.identity, timeout_s=_LONGEST_S, headers=headers)
        held.callback(producer.close)
        # This comes first: it fences other writers, so what is then read from the topics is all there is.
        producer.start()
        warn_if_fallen(_log, work.release, connections.consumer, topics, [work.topic], route=work.name)
        slots = held.enter_context(closing(Slots(followed.dsn, followed.slot)))
        slots.require_settings()
        tables = followed.tables(slots, topics)
        try:
            is_new = tables.publish()
        except ConfigError:
            slots.drop()  # as below: a person publishes it, and the log until then is of no use
            raise
        if is_new:
            # What came before is not for this publication, and a slot from before it knows of none.
            slots.drop()
            # Of transactions that write now the log may leave something out.
            slots.wait_for_running(checkpoint)
        keeping = held.enter_context(closing(followed.keeping(topics)))
        stream = held.enter_context(closing(ReplicationStream(followed.dsn)))
        known, states = keeping.read()
        place = self._place(slots, stream, known, checkpoint)
        if known is not None and newest_version(connections.consumer, topics, work.topic) > known.version:
            # Somebody follows the log to this topic by another name. From this place on it would go back to old rows.
            # A source of many tables has no such records here, and to look at each of their topics would take long.
            states = {name: state.of_unknown_versions() for name, state in states.items()}
        if place != known:
            forgotten = known is None  # and with it the newest version
            states = {n: state.of_unknown_versions() if forgotten else state.anew() for n, state in states.items()}
        tables.begin(states)
        stream.start(followed.slot, followed.slot, place.at)
        reader = PostgresReader(followed.dsn, stopping=stopping, lock_s=followed.lock_s)
        tools = Tools(stream, slots, reader, producer, keeping, self._reporter, _LONGEST_S * _SHARE)
        comparing = Comparing(slots, reader, encoders, producer, topics, connections.producer, connections.consumer)
        following = held.enter_context(closing(Following(tools, place, tables)))
        if place != known:
            following.note(place, states)
        Working(Parts(work, tools, tables, comparing), following, checkpoint).run()

    def _place(
        self, slots: Slots, stream: ReplicationStream, known: Place | None, checkpoint: Callable[[], None]
    ) -> Place:
        """Where to go on, or where to begin: then it is not the known one."""
        slot, here = slots.slot(), (stream.system, stream.timeline, slots.name)
        # Versions rise even if the log of another database begins lower.
        newest = (0, 0) if known is None else (known.version, known.time_ms)
        if slot is not None and slot.is_lost:
            _log.warning("PostgreSQL has removed what the slot needs: all is compared", extra={"slot": slots.name})
            slots.drop()
            slot = None
        if slot is None:
            return Place(*here, slots.make(checkpoint), *newest)
        if not slot.confirmed:  # by an instance that had its turn before: the known place is not in it
            raise Retryable("the slot is being made at this moment", where=f"slot {slots.name}")
        if known is None or (known.system, known.timeline, known.slot) != here or slot.confirmed > known.at:
            # Somebody has made the slot again, or has read from it: what it has passed is nowhere else.
            return Place(*here, slot.confirmed, *newest)
        if known.at > stream.end:
            # The database was restored from a copy of its disk: from there on it writes another log.
            return Place(*here, slot.confirmed, *newest)
        return known
