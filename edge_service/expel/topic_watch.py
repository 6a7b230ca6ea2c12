"""Notices what the client finds out late or never: that a topic was made again, so that its offsets mean other records,
that it has more partitions, or that a topic of retries is missing."""

import logging
import threading
from collections.abc import Mapping

from enrich.base.errors import ConfigError, EnrichError, Retryable
from enrich.kafka import Topics

_log = logging.getLogger("enrich.expel")

_LOOK_EVERY_S = 5.0
_BY_ITSELF = "the route begins again by itself"
Identity = tuple[str, list[int]]


class TopicWatch:
    """Looks in a thread of its own, until it is closed: brokers that do not answer keep nobody waiting."""

    def __init__(self, topics: Topics, known: Mapping[str, Identity]) -> None:
        """`known`: id and partitions of the topics as they are now. The first is the route's, which others make."""
        self.failure: EnrichError | None = None
        """Set once one of them has changed."""
        self._topics = topics
        self._known = known
        self._closing = threading.Event()
        threading.Thread(target=self._watch, name="topics", daemon=True).start()

    def close(self) -> None:
        self._closing.set()

    def _watch(self) -> None:
        while self.failure is None and not self._closing.wait(_LOOK_EVERY_S):
            for topic, known in self._known.items():
                try:
                    now = self._topics.identity(topic)
                except ConfigError:
                    if topic != next(iter(self._known)):
                        self.failure = Retryable("the topic is missing", where=f"topic {topic}", next_step=_BY_ITSELF)
                    continue
                except EnrichError as error:
                    _log.debug("topics cannot be looked at: %s", error)
                    break
                if now != known:
                    what = "was made again" if now[0] != known[0] else f"has {len(now[1])} partitions now"
                    self.failure = Retryable(f"the topic {what}", where=f"topic {topic}", next_step=_BY_ITSELF)
