"""Asks the brokers in the background about all topics: their ids, settings and end offsets."""

import logging
from collections.abc import Collection, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass

from enrich.base.errors import ConfigError, EnrichError
from enrich.host.claims.moments import Clocks, Moment
from enrich.kafka import Connection, TopicEnds, Topics, TopicSettings, new_admin_client

_log = logging.getLogger(__name__)

_ASK_EVERY_MS = 200
_ASK_SETTINGS_EVERY_MS = 60_000

PATIENCE_S = 5
"""How long to wait for brokers that do not answer. Short, because a stopping agent waits for it, and it is retried."""


@dataclass(frozen=True)
class Answer:
    """The brokers' answer about one topic. The clocks were read before the request was sent."""

    asked: Moment
    ends: TopicEnds
    settings: TopicSettings | None
    """None if this user may not read them."""


class TopicWatch:
    """Watches all topics of a store. Requests run in a thread of their own; no method waits for the brokers."""

    def __init__(self, topics: Collection[str], connection: Connection, clocks: Clocks) -> None:
        self._names = frozenset(topics)
        self._topics = Topics(new_admin_client(connection), deadline_s=PATIENCE_S)
        self._clocks = clocks
        self._settings: dict[str, TopicSettings | None] = {}
        # On the steady clock: a clock that was set back would delay the next request.
        self._settings_asked_at_ms: int | None = None
        self._asked_at_ms: int | None = None
        self._asking: Future[Mapping[str, Answer | EnrichError]] | None = None
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="topic-watch")

    def ask_now(self) -> None:
        """Makes the next call of `answers` send a request at once: somebody wants to know how fresh the tables are."""
        self._asked_at_ms = None

    def answers(self) -> Mapping[str, Answer | EnrichError]:
        """The answers since the last call. Also sends the next request when it is due."""
        came: Mapping[str, Answer | EnrichError] = {}
        if self._asking is not None and self._asking.done():
            came = self._asking.result()
            self._asking = None
        now = self._clocks.steady.now_ms()
        if self._asking is None and (self._asked_at_ms is None or now - self._asked_at_ms >= _ASK_EVERY_MS):
            self._asked_at_ms = now
            self._asking = self._thread.submit(self._ask)
        return came

    def close(self) -> None:
        self._thread.shutdown(wait=True, cancel_futures=True)

    def _ask(self) -> Mapping[str, Answer | EnrichError]:
        asked = self._clocks.now()
        answers: dict[str, Answer | EnrichError] = {}
        try:
            ends = self._topics.ends(self._names)
        except EnrichError as error:
            return dict.fromkeys(self._names, error)
        known_at = self._settings_asked_at_ms
        if known_at is None or asked.steady_ms - known_at >= _ASK_SETTINGS_EVERY_MS:
            self._settings.clear()
            self._settings_asked_at_ms = asked.steady_ms
        for name, end in ends.items():
            try:
                answers[name] = end if isinstance(end, EnrichError) else Answer(asked, end, self._settings_of(name))
            except EnrichError as error:
                answers[name] = error
        return answers

    def _settings_of(self, name: str) -> TopicSettings | None:
        if name not in self._settings:
            try:
                self._settings[name] = TopicSettings.of(self._topics.settings(name))
            except ConfigError as error:
                _log.warning("the settings of a topic cannot be read", extra={"topic": name, "reason": str(error)})
                self._settings[name] = None
        return self._settings[name]
