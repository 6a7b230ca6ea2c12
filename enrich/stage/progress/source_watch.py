"""Looks once a second whether the topics of a running stage are still those that it began to read, and for further
topics of its pattern."""

import logging
import threading
from collections.abc import Callable
from contextlib import suppress

from enrich.base.errors import EnrichError, Retryable, WouldLoseData
from enrich.kafka import Topics
from enrich.stage.progress.source_topics import SourceTopics, deleted, recreated

_log = logging.getLogger(__name__)

_LOOK_EVERY_S = 1.0


class SourceWatch:
    def __init__(self, source: SourceTopics, topics: Topics, matches: Callable[[str], bool] | None = None) -> None:
        """`matches`: whether a topic is one of the source's pattern, if it has a pattern."""
        self._known = source
        self._topics = topics
        self._matches = matches
        self._problem: WouldLoseData | None = None
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._look_on, name="source-watch", daemon=True)
        self._thread.start()

    @property
    def known(self) -> SourceTopics:
        """All topics that have been found so far."""
        return self._known

    def known_now(self) -> SourceTopics:
        """The same after a new check, if the brokers answer."""
        with suppress(EnrichError):
            self._look()
        return self._known

    def require_same(self) -> None:
        """By the last check. Raises WouldLoseData."""
        if self._problem is not None:
            raise self._problem

    def require_same_now(self) -> None:
        """By a new check. Raises WouldLoseData, and ConfigError if a topic is gone or may not be read."""
        try:
            gone = self._look()
        except Retryable:
            _log.info("the topics of the events cannot be looked up now", extra={"topics": sorted(self._known.ids)})
            gone = None
        self.require_same()
        if gone is not None:
            # With a pattern, no configuration names the topic.
            raise gone[1] if self._matches is None else deleted(gone[0])

    def close(self) -> None:
        self._stopping.set()

    def _look_on(self) -> None:
        while not self._stopping.wait(_LOOK_EVERY_S):
            # If a topic or the brokers are gone, Spark reports it itself.
            with suppress(EnrichError):
                self._look()

    def _look(self) -> tuple[str, EnrichError] | None:
        """Returns the first known topic that cannot be found, and why."""
        names = {*self._known.ids}
        if self._matches is not None:
            names |= set(filter(self._matches, self._topics.names("")))
        found = self._topics.identities(sorted(names))
        ids = {topic: each[0] for topic, each in found.items() if not isinstance(each, EnrichError)}
        for topic, topic_id in self._known.ids.items():
            if ids.get(topic, topic_id) != topic_id:
                self._problem = recreated(topic)
                return None
        late = ids.keys() - self._known.ids.keys()
        if late:
            _log.info("the source has further topics, which are read from their beginning", extra={"topics": [*late]})
            self._known = self._known.with_late({topic: ids[topic] for topic in late})
        missing = ((topic, each) for topic, each in found.items() if isinstance(each, EnrichError))
        return next(((topic, each) for topic, each in missing if topic in self._known.ids), None)
