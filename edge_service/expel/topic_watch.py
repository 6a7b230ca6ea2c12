"""Notices what the client finds out late or never: that a topic was made again, so that its offsets mean other records,
that it has more partitions, or that a topic of retries is missing."""

import logging
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from enrich.base.errors import ConfigError, EnrichError, Retryable
from enrich.kafka import Topics

_log = logging.getLogger("enrich.expel")

_LOOK_EVERY_S = 5.0
_BY_ITSELF = "the route begins again by itself"
Identity = tuple[str, list[int]]


class Watched:
    """The topics of a route."""

    def __init__(self, known: Mapping[str, Identity]) -> None:
        self.failure: EnrichError | None = None
        """Set once one of them has changed."""
        self.topics = known.keys()
        self._known = known
        self._own = next(iter(known))

    def seen(self, now: Mapping[str, Identity | EnrichError]) -> None:
        for topic, known in self._known.items():
            found = now[topic]
            if isinstance(found, ConfigError) and topic != self._own:
                self._fails(topic, "is missing")
            elif not isinstance(found, EnrichError) and found != known:
                self._fails(topic, "was made again" if found[0] != known[0] else f"has {len(found[1])} partitions now")

    def _fails(self, topic: str, what: str) -> None:
        self.failure = Retryable(f"the topic {what}", where=f"topic {topic}", next_step=_BY_ITSELF)


class TopicWatch:
    """For all routes of a program together: one request, in a thread of its own, so that brokers that do not answer
    keep nobody waiting. With a request for each route twenty threads woke at once, and events waited 0.1 s for them."""

    def __init__(self, topics: Callable[[], Topics]) -> None:
        self._topics = topics
        self._watched: set[Watched] = set()
        self._lock = threading.Lock()
        self._idle = threading.Event()
        """Set once the last route has ended: then the thread ends, too."""

    @contextmanager
    def watching(self, known: Mapping[str, Identity]) -> Iterator[Watched]:
        """`known`: id and partitions of a route's topics as they are now. The first is its own, which others make."""
        watched = Watched(known)
        with self._lock:
            if not self._watched:
                self._idle = threading.Event()
                threading.Thread(target=self._run, args=[self._idle], name="topics", daemon=True).start()
            self._watched.add(watched)
        try:
            yield watched
        finally:
            with self._lock:
                self._watched.discard(watched)
                if not self._watched:
                    self._idle.set()

    def _run(self, idle: threading.Event) -> None:
        topics: Topics | None = None
        while not idle.wait(_LOOK_EVERY_S):
            with self._lock:
                watched = list(self._watched)
            names = {topic for each in watched for topic in each.topics}
            try:
                topics = topics or self._topics()
                now = topics.identities(names) if names else {}
            except EnrichError as error:
                _log.debug("topics cannot be looked at: %s", error)
                continue
            for each in watched:
                each.seen(now)
