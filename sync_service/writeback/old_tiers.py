"""Retry topics that the configuration names no more, and what waits in them."""

import logging
import re
import threading
import time
from collections.abc import Callable
from functools import partial

from confluent_kafka import TopicPartition

from enrich.config import retry_prefix
from enrich.kafka import Topics
from sync_service.routes import RouteKind, RouteState, RouteStatus
from sync_service.writeback.groups import adopt, reached
from sync_service.writeback.plan import WritebackPlan
from sync_service.writeback.route import Clients, WritebackRoute

_log = logging.getLogger("enrich.sync")

_OLD_EVERY_S = 60.0
_OLD_NAME = re.compile(r"[0-9]+(ms|s|m|h|d)(\.[0-9]+)?")


class OldTiersRoute:
    """What waits in retry topics that the configuration has no more: tried at once, and sent on from the first of the
    present ones. It looks at the start and now and then, as other instances may still have the old configuration."""

    kind = RouteKind.writeback

    def __init__(self, plan: WritebackPlan, clients: Clients) -> None:
        self._plan = plan
        self._clients = clients
        self._has_looked = False
        self._working: WritebackRoute | None = None

    @property
    def name(self) -> str:
        return f"{self._plan.name}.retry-old"

    def run(self, stopping: threading.Event) -> None:
        self._has_looked = False
        while not stopping.is_set():
            topics = self._clients.topics()
            for topic in self._old(topics):
                if self._waits(topics, topic):
                    _log.info("records wait in an old retry topic", extra={"route": self.name, "topic": topic})
                    self._working = WritebackRoute(self._plan, self._clients, self._plan.old_tier(topic))
                    self._working.run(_Until(stopping, partial(self._is_done, topics, topic)))
                    self._working = None
            self._has_looked = True
            stopping.wait(_OLD_EVERY_S)

    def status(self) -> RouteStatus:
        working = self._working
        if working is not None:
            return working.status()
        state = RouteState.running if self._has_looked else RouteState.starting
        return RouteStatus(self.name, self.kind, state, lag=0, is_of_interest=False)

    def _old(self, topics: Topics) -> list[str]:
        prefix = retry_prefix(self._plan.pipeline, self._plan.name)
        present = {name for name, _ in self._plan.retry_topics}
        found = topics.names(prefix)
        # A route's name may hold dots, and so begin like another's topics.
        return [name for name in found if name not in present and _OLD_NAME.fullmatch(name.removeprefix(prefix))]

    def _waits(self, topics: Topics, topic: str) -> bool:
        adopt(self._plan, self._clients.consumer, topics, topic)
        return not self._is_done(topics, topic)

    def _is_done(self, topics: Topics, topic: str) -> bool:
        ends, firsts = topics.end_offsets(topic), topics.start_offsets(topic)
        places = [TopicPartition(topic, partition) for partition in ends]
        group = self._plan.group_of(topic)
        known = {place.partition: place.offset for place in reached(self._clients.consumer, group, places)}
        return all(max(known.get(place, 0), firsts.get(place, 0)) >= end for place, end in ends.items())


class _Until(threading.Event):
    """Set as soon as another is, or something is done; that is looked at once a second."""

    def __init__(self, stopping: threading.Event, is_done: Callable[[], bool]) -> None:
        super().__init__()
        self._stopping = stopping
        self._is_done = is_done
        self._next = 0.0

    def is_set(self) -> bool:
        if not self._stopping.is_set() and time.monotonic() < self._next:
            return False
        self._next = time.monotonic() + 1.0
        return self._stopping.is_set() or self._is_done()
