"""Looks once a second at the ends of all topics that nodes read."""

import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from enrich.base.backoff import Backoff
from enrich.base.errors import EnrichError
from enrich.kafka import Topics
from enrich.tally import Node
from enrich.tally.origins import Place
from observe_service.clock import Clock
from observe_service.verdicts.reached import Ends

_log = logging.getLogger("enrich.observe")

_EVERY_S = 1.0
_NAMES_EVERY_S = 30.0
Reads = Callable[[str], bool]


@dataclass(frozen=True)
class Look:
    at_ms: int
    """The ends were asked for from then on."""
    ends: Ends
    topics_of: Mapping[Node | None, Sequence[str]]
    ids: Mapping[str, str]
    """Of each topic. One that is made again has another."""


class EndsWatch:
    """In a thread of its own: the brokers may take long to answer."""

    def __init__(
        self, topics: Topics, readers: Mapping[Node | None, Reads], seen: Callable[[Look], None], clock: Clock
    ) -> None:
        """`readers`: which topics each node reads. None: the observer itself."""
        self._topics = topics
        self._readers = readers
        self._seen = seen
        self._clock = clock
        self._names: Mapping[Node | None, Sequence[str]] = {}
        self._names_s = 0.0
        self._stopping = threading.Event()
        self.trouble: str | None = None
        self._thread = threading.Thread(target=self._run, name="ends", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        self._thread.join(5)

    def topics_of(self) -> Mapping[Node | None, Sequence[str]]:
        """Of each node those that it reads and that exist."""
        if time.monotonic() >= self._names_s:
            names = self._topics.names("")
            self._names = {node: [name for name in names if reads(name)] for node, reads in self._readers.items()}
            self._names_s = time.monotonic() + _NAMES_EVERY_S
        return self._names

    def bases(self, from_ms: int) -> Mapping[Node | None, Mapping[Place, int]]:
        """Of each node's topics the ends at that time."""
        found: dict[Node | None, dict[Place, int]] = {}
        for node, names in self.topics_of().items():
            found[node] = {
                (name, partition): offset
                for name in names
                for partition, offset in self._topics.offsets_at(name, from_ms).items()
            }
        return found

    def _run(self) -> None:
        backoff = Backoff(_EVERY_S, 10.0)
        while not self._stopping.is_set():
            try:
                self._look()
            except EnrichError as error:
                if self.trouble is None:
                    _log.warning("the ends of topics are not known: %s", error)
                self.trouble = str(error)
                self._stopping.wait(backoff.next_s())
                continue
            if self.trouble is not None:
                _log.info("the ends of topics are known again")
            self.trouble = None
            backoff.reset()
            self._stopping.wait(_EVERY_S)

    def _look(self) -> None:
        topics_of = self.topics_of()
        names = {name for some in topics_of.values() for name in some}
        at_ms = self._clock.now_ms()
        ends: dict[Place, int] = {}
        failed, ids = dict[str, EnrichError](), dict[str, str]()
        for name, answer in self._topics.ends(names).items():
            if isinstance(answer, EnrichError):
                failed[name] = answer
            else:
                ids[name] = answer.topic_id
                ends |= {(name, partition): end for partition, end in answer.offsets.items()}
        # Of a node nothing can be said if the end of one of its topics is not known; the others are looked at.
        known = {node: own for node, own in topics_of.items() if not failed.keys() & set(own)}
        self._seen(Look(at_ms, ends, known, ids))
        for error in failed.values():
            self._names_s = 0.0  # it may be gone
            raise error
