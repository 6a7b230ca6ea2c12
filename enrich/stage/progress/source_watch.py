"""Looks once a second whether the topics of a running stage are still those that it began to read, and for further
topics of its pattern."""

import logging
import threading
import time
from collections.abc import Callable, Collection
from contextlib import suppress

from confluent_kafka import KafkaError

from enrich.base.errors import ConfigError, EnrichError, Retryable
from enrich.kafka import Topics
from enrich.kafka.clients.errors import code_of
from enrich.stage.progress.source_topics import SourceTopics, deleted, recreated

_log = logging.getLogger(__name__)

_LOOK_EVERY_S = 1.0
_DOUBT_S = 10.0


class SourceWatch:
    def __init__(
        self,
        source: SourceTopics,
        topics: Topics,
        matches: Callable[[str], bool] | None = None,
        outputs: Collection[str] = (),
    ) -> None:
        """`matches`: whether a topic is one of the source's pattern, if it has a pattern. `outputs`: all topics that
        it writes to. For one that is gone Spark's sink would wait for minutes, and say little; a slot for good."""
        self._known = source
        self._topics = topics
        self._matches = matches
        self._outputs = frozenset(outputs)
        self._gone: dict[str, float] = {}
        """Since when each output could not be found."""
        self._problem: EnrichError | None = None
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
        """By the last check. Raises WouldLoseData, and ConfigError for an output that is gone."""
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
        names = {*self._known.ids, *self._outputs}
        if self._matches is not None:
            names |= set(filter(self._matches, self._topics.names("")))
        found = self._topics.identities(sorted(names))
        ids = {topic: each[0] for topic, each in found.items() if not isinstance(each, EnrichError)}
        for topic, topic_id in self._known.ids.items():
            if ids.get(topic, topic_id) != topic_id:
                self._problem = recreated(topic)
                return None
        now = time.monotonic()
        gone = sorted(topic for topic in self._outputs if isinstance(found[topic], ConfigError))
        self._gone = {topic: self._gone.get(topic, now) for topic in gone}
        # While a topic is made again, or brokers come back, it is not known for a moment.
        if lasting := [topic for topic, since in self._gone.items() if now >= since + _DOUBT_S]:
            self._problem = _output_gone(lasting[0], found[lasting[0]])
            return None
        late = ids.keys() - self._known.ids.keys() - self._outputs
        if late:
            _log.info("the source has further topics, which are read from their beginning", extra={"topics": [*late]})
            self._known = self._known.with_late({topic: ids[topic] for topic in late})
        missing = ((topic, each) for topic, each in found.items() if isinstance(each, EnrichError))
        return next(((topic, each) for topic, each in missing if topic in self._known.ids), None)


def _output_gone(topic: str, found: object) -> ConfigError:
    if isinstance(found, ConfigError) and code_of(found) == KafkaError.TOPIC_AUTHORIZATION_FAILED:
        return ConfigError(
            "this user may not see a topic any more that the stage writes to",
            where=f"topic {topic}",
            next_step="grant WRITE on it and start the stage: it goes on with the same events",
        )
    return ConfigError(
        "a topic that the stage writes to does not exist any more",
        where=f"topic {topic}",
        next_step="make it again (enrich topics apply -c FILE) and start the stage: it goes on with the same events",
    )
