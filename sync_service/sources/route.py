"""A source as a route: waits for its turn, fences the previous instance, and works until it is stopped."""

import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

from enrich.base.errors import BadRecord, Fenced, Retryable
from enrich.codecs.encoding import Encoder
from enrich.kafka import Admin, Connection, Topics, new_admin_client
from enrich.kafka.clients.errors import ClientOver
from enrich.kafka.releases import release_headers, warn_if_fallen
from enrich.kafka.turns import Turn
from enrich.kafka.writing.room import sized
from enrich.kafka.writing.transactions import TransactionalProducer
from enrich.service.routes import RouteKind, RouteStatus
from sync_service.sources.known.catching_up import facts_of
from sync_service.sources.known.deletions import DeleteGuard
from sync_service.sources.known.remembered import Remembered
from sync_service.sources.logged.keeping import unsettle
from sync_service.sources.polled.source import Source
from sync_service.sources.reporting import StatusReporter
from sync_service.sources.rounds import Rounds, Tools

_log = logging.getLogger("enrich.sync")

_TURN_S = 0.2


@dataclass(frozen=True, slots=True)
class SourceWork:
    """What a route has to do, and the names that it uses."""

    name: str
    identity: str
    """Its transactional id, and the consumer group in which instances wait for their turn."""
    topic: str
    directory: Path
    interval_s: float
    delete_guard: float
    confirm: str
    """The command that answers the guard's question."""
    origin: str
    """Another one if the configuration names other rows."""
    release: int = 0
    """Of the pipeline; its records carry it unless it is 0."""


@dataclass(frozen=True, slots=True)
class Connections:
    """The configured settings for each kind of Kafka client."""

    producer: Connection
    consumer: Connection
    common: Connection


class SourceRoute:
    """A `Route` from a source to a compacted topic. However many instances run, only one is active."""

    kind = RouteKind.source

    def __init__(
        self,
        work: SourceWork,
        connections: Connections,
        encoder: Callable[[], Encoder],
        source: Callable[[Callable[[], bool]], Source],
    ) -> None:
        """`encoder` and `source` are called for each run; `source` gets a function that tells it to stop waiting."""
        self._work = work
        self._connections = connections
        self._new_encoder = encoder
        self._new_source = source
        self._reporter = StatusReporter(work.name)

    @property
    def name(self) -> str:
        return self._work.name

    def status(self) -> RouteStatus:
        return self._reporter.status

    def run(self, stopping: threading.Event) -> None:
        work = self._work
        waiting = _Waiting(stopping)
        encoder, source = self._new_encoder(), self._new_source(waiting)
        admin, consuming = new_admin_client(self._connections.common), self._connections.consumer
        topics = Topics(admin)
        facts = facts_of(topics, work.topic, self._connections.producer)
        producing = sized(self._connections.producer, [facts.room])
        guard = DeleteGuard(work.directory, work.delete_guard, where=f"source {work.name}", next_step=work.confirm)
        turn = in_turn(work, self._connections, admin, self._reporter, stopping)
        with turn as checkpoint, ExitStack() as held:
            if checkpoint is None:
                return
            waiting.checkpoint = checkpoint
            headers = release_headers(work.release)
            producer = held.enter_context(closing(TransactionalProducer(producing, work.identity, headers=headers)))
            # This comes first: it fences other writers, so what is then read from the topic is all there is.
            producer.start()
            unsettle(consuming, f"{work.identity}.log", work.topic, producer)
            warn_if_fallen(_log, work.release, consuming, topics, [work.topic], route=work.name)
            remembered = held.enter_context(closing(Remembered(work.directory / "known", topics, facts, consuming)))
            if source.hints is not None:
                held.enter_context(closing(source.hints))
            encoding = f"{encoder.identity} {work.origin}"
            tools = Tools(source, encoder, encoding, remembered, producer, guard, facts, work.directory)
            Rounds(tools, checkpoint, self._reporter, stopping).run(work.interval_s)


class _Waiting:
    """What a source calls while it waits: whether it is to stop. In the route's own thread that is a checkpoint, too:
    a turn is lost by some minutes of silence, and a file or an endpoint that wants to be left alone may take longer."""

    def __init__(self, stopping: threading.Event) -> None:
        self._stopping = stopping
        self._thread = threading.get_ident()
        self.checkpoint: Callable[[], None] = lambda: None

    def __call__(self) -> bool:
        if not self._stopping.is_set() and threading.get_ident() == self._thread:
            self.checkpoint()
        return self._stopping.is_set()


class _StoppingError(Exception):
    """A stop was requested; raised between two steps."""


@contextmanager
def in_turn(
    work: SourceWork, connections: Connections, admin: Admin, reporter: StatusReporter, stopping: threading.Event
) -> Iterator[Callable[[], None] | None]:
    """Waits for the turn of this instance. Yields what the block has to call between two steps: it ends the block if a
    stop was requested, and raises Fenced if the turn was lost. None: it was told to stop before its turn.

    Raises Retryable in place of Fenced if the turn was lost meanwhile, even if it has come back: then the next run
    begins with all that another instance may have written. Fenced is left for a writer that did not wait for its turn.
    Retryable also in place of ClientOver: the next run has another producer. And of BadRecord: it may be corrected.
    """
    with closing(Turn(connections.consumer, admin, work.identity, work.topic)) as turn:
        while not stopping.is_set() and not turn.has_it(_TURN_S):
            if turn.is_behind:  # else it takes some seconds to join the group
                reporter.stands_by()
        if stopping.is_set():
            yield None
            return
        taken = turn.taken

        def checkpoint() -> None:
            if stopping.is_set():
                raise _StoppingError
            if not turn.has_it():
                raise Fenced("this instance lost its turn: its consumer group did not hear from it in time")

        try:
            yield checkpoint
        except _StoppingError:
            return
        except ClientOver as error:
            raise Retryable(error.what, where=error.where) from error
        except BadRecord as error:  # the brokers refuse what is written, such as times of a clock that is far ahead
            raise Retryable(error.what, where=error.where, next_step=error.next_step) from error
        except Fenced as error:
            if turn.has_it(_TURN_S) and turn.taken == taken:
                raise
            raise Retryable("another instance took over: this one was silent for too long") from error
