"""Asks the brokers in the background about all topics: their ids, settings and end offsets."""

import logging
import time
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice

from enrich.base.errors import ConfigError, EnrichError, Unreachable
from enrich.host.claims.moments import Clocks, Moment
from enrich.kafka import Connection, TopicEnds, Topics, TopicSettings, new_admin_client
from enrich.kafka.ends import UNKNOWN, Leaders, ManyEnds
from enrich.kafka.native_topics import NativeTopics

_log = logging.getLogger(__name__)

_ASK_EVERY_MS = 200
_ASK_SHARE, _ASK_RARELY_MS = 0.003, 1_000
"""Of a core: many topics are asked less often, but at least each second. What is done with an answer takes as much."""
_ASK_SETTINGS_EVERY_MS = 60_000
_SETTINGS_AT_ONCE = 5

_JOINT_S = 1.0
"""After this each topic is asked by itself."""
_LEADERS_HOLD_MS = 60_000
"""Who leads which partition is only for asking in fewer requests."""
_NATIVE_PAUSE_MS = 10_000
"""After a description without an answer: it has cost its deadline, which the Python client's own has to wait for."""
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
    """Watches all topics of a store. Requests run in threads of their own; no method waits for the brokers."""

    def __init__(self, topics: Collection[str], connection: Connection, clocks: Clocks) -> None:
        self._requests = _Requests(topics, connection, clocks)
        self._clocks = clocks
        self._together = _Asking(self._requests.ask_together)
        self._alone = _Asking(self._requests.ask_alone)

    def ask_now(self) -> None:
        """Makes the next call of `answers` send a request at once: somebody wants to know how fresh the tables are."""
        self._together.asked_at_ms = None

    def answers(self) -> Mapping[str, Answer | EnrichError]:
        """The answers since the last call. Also sends the next requests when they are due."""
        together, alone = self._together.came(), self._alone.came()
        came = {**alone, **together}  # of a topic that is in both, this one was asked later
        now = self._clocks.steady.now_ms()
        self._together.ask(now, max(_ASK_EVERY_MS, min(self._requests.cost_ms / _ASK_SHARE, _ASK_RARELY_MS)))
        if self._requests.alone:
            self._alone.ask(now, _ASK_EVERY_MS)
        return came

    def close(self) -> None:
        self._together.close()
        self._alone.close()
        self._requests.close()


class _Asking:
    """One question that is asked again and again, in a thread of its own."""

    def __init__(self, question: Callable[[], Mapping[str, Answer | EnrichError]]) -> None:
        self._question = question
        self._answer: Future[Mapping[str, Answer | EnrichError]] | None = None
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="topic-watch")
        # On the steady clock: a clock that was set back would delay the next request.
        self.asked_at_ms: int | None = None

    def came(self) -> Mapping[str, Answer | EnrichError]:
        if self._answer is None or not self._answer.done():
            return {}
        answer, self._answer = self._answer, None
        return answer.result()

    def ask(self, now_ms: int, every_ms: float) -> None:
        if self._answer is None and (self.asked_at_ms is None or now_ms - self.asked_at_ms >= every_ms):
            self.asked_at_ms = now_ms
            self._answer = self._thread.submit(self._question)

    def close(self) -> None:
        self._thread.shutdown(wait=True, cancel_futures=True)


class _Requests:
    """What the brokers are asked. For two threads: one asks of the topics that are `alone`, one of all others."""

    def __init__(self, topics: Collection[str], connection: Connection, clocks: Clocks) -> None:
        self._names = frozenset(topics)
        self._topics = Topics(new_admin_client(connection), deadline_s=PATIENCE_S)
        self._many = ManyEnds(connection, _JOINT_S)
        self._native: NativeTopics | None = None
        with suppress(ConfigError):
            self._native = NativeTopics(connection, _JOINT_S)
        self._native_from_ms = 0
        self._leaders: Leaders = UNKNOWN
        self._leaders_from_ms = 0
        self._clocks = clocks
        self.alone: set[str] = set()
        """Topics whose ends could not be asked the last time, and wait until they can. They hold no other up."""
        self._settings: dict[str, tuple[TopicSettings | None, int]] = {}
        """And when they were asked."""
        self.cost_ms = 0.0
        """Of a usual answer, in processor time."""

    def ask_together(self) -> Mapping[str, Answer | EnrichError]:
        """Quick. If it cannot be done for all of them, they are `alone` from now on."""
        asked = self._clocks.now()
        try:
            return self._with_settings(self._ends(), asked)
        except EnrichError as error:
            return dict.fromkeys(self._names, error)

    def ask_alone(self) -> Mapping[str, Answer | EnrichError]:
        asked, names = self._clocks.now(), frozenset(self.alone)
        try:
            ends = self._topics.ends(names)
        except EnrichError as error:
            return dict.fromkeys(names, error)
        answers = self._with_settings(ends, asked)
        self.alone.difference_update(name for name, end in ends.items() if isinstance(end, TopicEnds))
        return answers

    def close(self) -> None:
        self._many.close()
        if self._native is not None:
            self._native.close()

    def _ends(self) -> Mapping[str, TopicEnds | EnrichError]:
        began_s = time.thread_time()
        # First what the topics are: the ends of another topic of the name, or of fewer partitions, would prove nothing.
        found = self._identities()
        failed = {name: one for name, one in found.items() if isinstance(one, EnrichError)}
        known = {name: one for name, one in found.items() if not isinstance(one, EnrichError)}
        try:
            together = self._together({name: one for name, one in known.items() if name not in self.alone})
        except EnrichError:  # of one of them, which has to be found
            self.alone.update(known)
            return failed
        self.cost_ms = 1000 * (time.thread_time() - began_s)
        return {**failed, **together}

    def _identities(self) -> Mapping[str, tuple[str, list[int]] | EnrichError]:
        quickly: Mapping[str, tuple[str, list[int]]] = {}
        now_ms = self._clocks.steady.now_ms()
        if self._native is not None and now_ms >= self._native_from_ms:
            try:
                quickly = self._native.identities(self._names)
                if now_ms >= self._leaders_from_ms:
                    self._leaders = self._native.leaders(self._names)
                    self._leaders_from_ms = now_ms + _LEADERS_HOLD_MS
            except Unreachable:
                self._native_from_ms = now_ms + _NATIVE_PAUSE_MS
        # The Python client says what is wrong with the others.
        return {**quickly, **self._topics.identities(self._names - quickly.keys())}

    def _together(self, known: Mapping[str, tuple[str, list[int]]]) -> Mapping[str, TopicEnds]:
        """The ends of these topics. Raises the error of any of them."""
        found = self._many.of({name: partitions for name, (_, partitions) in known.items()}, self._leaders)
        return {name: TopicEnds(known[name][0], offsets) for name, offsets in found.items()}

    def _with_settings(
        self, ends: Mapping[str, TopicEnds | EnrichError], asked: Moment
    ) -> Mapping[str, Answer | EnrichError]:
        there = [name for name, end in ends.items() if isinstance(end, TopicEnds)]
        failed = self._ask_settings(there, asked.steady_ms)
        return {
            name: end if isinstance(end, EnrichError) else Answer(asked, end, self._settings[name][0])
            for name, end in {**ends, **failed}.items()
        }

    def _ask_settings(self, there: Collection[str], now_ms: int) -> Mapping[str, EnrichError]:
        """Of topics that have no settings known, or old ones. Returns those of which there are none."""
        asked = [name for name in there if name not in self._settings]
        known = ((name, self._settings[name][1]) for name in there if name in self._settings)
        old = (name for name, at in known if now_ms - at >= _ASK_SETTINGS_EVERY_MS)
        asked += islice(old, _SETTINGS_AT_ONCE)
        failed: dict[str, EnrichError] = {}
        try:
            came = self._topics.settings_of(asked)
        except EnrichError as error:  # those that are known hold until they can be asked again
            return {name: error for name in asked if name not in self._settings}
        for name, found in came.items():
            self._settings.pop(name, None)
            if isinstance(found, ConfigError):
                _log.warning("the settings of a topic cannot be read", extra={"topic": name, "reason": str(found)})
                self._settings[name] = None, now_ms
            elif isinstance(found, EnrichError):
                failed[name] = found
            else:
                self._settings[name] = TopicSettings.of(found), now_ms
        return failed
