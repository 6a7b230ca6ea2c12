"""Empties retry topics that the configuration does not name any more."""

import logging
import re
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial

from enrich.config import retry_prefix
from enrich.kafka import Topics
from enrich.service.routes import RouteKind, RouteState, RouteStatus
from sync_service.writeback.groups import adopt, reached
from sync_service.writeback.plan import WritebackPlan
from sync_service.writeback.route import Clients, WritebackRoute

_log = logging.getLogger("enrich.sync")

_OLD_EVERY_S = 60.0
_OLD_NAME = re.compile(r"[0-9]+(ms|s|m|h|d)(\.[0-9]+)?")


class OldTiersRoute:
    """Tries the records of old retry topics at once; what is refused again goes to the first present retry topic. It
    looks at the start and now and then, since other instances may still have the old configuration."""

    kind = RouteKind.writeback

    def __init__(self, plan: WritebackPlan, clients: Clients) -> None:
        self._plan = plan
        self._clients = clients
        self._has_looked = False
        self._working: WritebackRoute | None = None
        self._began_ms: int | None = None

    @property
    def name(self) -> str:
        return f"{self._plan.name}.retry-old"

    def run(self, stopping: threading.Event) -> None:
        # Counts as progress: the writing route has checked the store, so a later ConfigError must not stop the service.
        self._began_ms = self._began_ms or time.time_ns() // 1_000_000
        self._has_looked = False
        while not stopping.is_set():
            topics = self._clients.topics()
            for topic in self._old(topics):
                if self._waits(topics, topic):
                    _log.info("emptying an old retry topic", extra={"route": self.name, "topic": topic})
                    self._working = WritebackRoute(self._plan, self._clients, self._plan.old_tier(topic))
                    try:
                        self._working.run(_Until(stopping, partial(self._is_done, topics, topic)))
                    finally:  # the topic may be gone, or another instance may empty it, before the next try
                        self._working = None
            self._has_looked = True
            stopping.wait(_OLD_EVERY_S)

    def status(self) -> RouteStatus:
        working = self._working
        if working is not None:
            found = working.status()
            return replace(found, last_progress_ms=found.last_progress_ms or self._began_ms)
        state = RouteState.running if self._has_looked else RouteState.starting
        return RouteStatus(self.name, self.kind, state, lag=0, last_progress_ms=self._began_ms, is_of_interest=False)

    def _old(self, topics: Topics) -> list[str]:
        prefix = retry_prefix(self._plan.pipeline, self._plan.name)
        present = {name for name, _ in self._plan.retry_topics}
        found = topics.names(prefix)
        # A route's name may contain dots, so its topics may begin like those of another route.
        return [name for name in found if name not in present and _OLD_NAME.fullmatch(name.removeprefix(prefix))]

    def _waits(self, topics: Topics, topic: str) -> bool:
        adopt(self._plan, self._clients.consumer, topics, topic)
        return not self._is_done(topics, topic)

    def _is_done(self, topics: Topics, topic: str) -> bool:
        ends, firsts = topics.end_offsets(topic), topics.start_offsets(topic)
        group = self._plan.group_of(topic)
        known = {each.partition: each.offset for each in reached(self._clients.consumer, group, topic, list(ends))}
        return all(max(known.get(partition, 0), firsts.get(partition, 0)) >= end for partition, end in ends.items())


class _Until(threading.Event):
    """An event that is set when `stopping` is, or when `is_done` returns true; `is_done` is called once a second."""

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
