"""The program: an observer with its alarms and its page, until it is stopped."""

import logging
import signal
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from types import FrameType
from typing import Any

from enrich.base.errors import ConfigError
from enrich.config import Pipeline
from enrich.service.page import Page
from enrich.service.program import exit_after, leave
from enrich.service.status import listening
from enrich.tally import NodeKind, minute_of
from enrich.verdict import MinuteVerdict
from enrich.verdict.summary import Summary, summary_of
from observe_service.alarms.board import Action, Alarm, Board
from observe_service.alarms.causes import (
    HEADROOM,
    LAG,
    LOSS,
    VERDICTS,
    Cause,
    MinuteCauses,
    headroom,
    held_up,
    not_answering,
    not_heard,
    of_statuses,
    silences,
)
from observe_service.alarms.sending import GIVE_UP_MS, Webhook
from observe_service.history import History
from observe_service.observer import Observer
from observe_service.page.metrics import exposition
from observe_service.page.server import PageServer, Watchers
from observe_service.page.state import State
from observe_service.watching.nodes import NodesWatch, bounds_of, programs_of
from observe_service.watching.verdict_log import Written

_log = logging.getLogger("enrich.observe")

_STOP_S = 20.0
_READS_ON_MS = 60_000
"""Up to so long ago all that nodes said is read, mostly up to a second."""


def run(pipeline: Pipeline) -> int:
    """Raises ConfigError if there is nothing to observe, or its page's address is taken."""
    watch = Watch(pipeline)
    try:
        server = watch.serve()
    except BaseException:
        watch.close()
        raise

    def stop(signum: int, frame: FrameType | None) -> None:  # noqa: ARG001 - the signature of a handler
        exit_after(_STOP_S)
        watch.observer.stop()

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, stop)
    _log.info("the page is on http://%s/", server.address)
    try:
        watch.observer.run()
    finally:
        server.close()
        watch.close()
    return leave()


class Watch:
    """What makes something of verdicts: days, alarms, the page."""

    def __init__(self, pipeline: Pipeline) -> None:
        observe = pipeline.observe
        if observe is None:
            raise ConfigError(
                f"the pipeline {pipeline.name} has no section `observe`",
                next_step="add one; `observe: {}` takes the defaults, see docs/observer.md",
            )
        self._observe = observe
        self.pipeline = pipeline
        self.observer = Observer(pipeline, self)
        if not self.observer.observation.ways:
            raise ConfigError(
                f"no events come into the pipeline {pipeline.name}: there is nothing to observe",
                next_step="add a stage, ingest or expel",
            )
        self.history = History(observe.loss.keep // timedelta(days=1) + 1)
        self.board = Board()
        programs, bounds = [*programs_of(pipeline)], bounds_of(pipeline)
        self.nodes = NodesWatch(pipeline.name, programs, bounds, lambda: self.observer.clock.now_ms() / 1000)
        self.watchers = Watchers()
        promise_ms = observe.sla.p95.total_seconds() * 1000
        self._causes = {
            way.name: MinuteCauses(way.name, observe.loss.alarm, promise_ms) for way in self.observer.observation.ways
        }
        self._settle_minutes = round(observe.loss.settle.total_seconds()) // 60
        self._lock = threading.Lock()
        """Over the board: the webhook's thread says what is sent."""
        self._write_alarm: Callable[[Alarm], None] = lambda _: None
        self._began_ms = 0
        """When it began to listen to nodes."""
        self._listens_ms = 0
        """Since when nodes can be heard. What they said before is no sign that they speak now."""
        self._knows_ms = 0
        """Since when all is read that nodes say. While nobody could hear them, no minute has waited for them."""
        self._probed: int | None = None
        """The minute that was looked at last."""
        self._webhook = Webhook(pipeline, self._sent) if observe.alarms.webhook is not None else None
        self.state = State(pipeline, self.observer, self.history, self.board, self.nodes)

    def serve(self) -> PageServer:
        """Raises ConfigError if the address is taken."""
        page = Page(
            metrics=lambda: exposition(self.state, self.observer.pipeline.name),
            status=self.state.status,
            not_ready=lambda: {} if self.observer.health.is_ready else {"observer": "it reads what was written before"},
        )
        token = None if self._observe.token is None else self._observe.token.get_secret_value()
        answers = self.state.answers()
        server = listening(
            self._observe.listen,
            "observe.listen",
            lambda host, port: PageServer(host, port, page, answers, self.watchers, token),
        )
        self.nodes.start()
        return server

    def close(self) -> None:
        self.nodes.stop()
        if self._webhook is not None:
            self._webhook.close()

    # What the observer calls.

    def began(self, written: Written, write_alarm: Callable[[Alarm], None]) -> None:
        self._write_alarm = write_alarm
        self._began_ms = self._listens_ms = self._knows_ms = self.observer.clock.now_ms()
        for alarm in written.alarms:
            kind, _, route = alarm.key.partition("/")
            if alarm.over_ms is None and kind in (LOSS, LAG) and route in self._causes:
                self._causes[route].restore(kind, alarm.text, minute_of(alarm.since_ms))
        oldest = minute_of(self._listens_ms) - 60
        self._take(written.verdicts(oldest))
        with self._lock:
            self.board.restore(written.alarms)
            self.board.actions = [*written.actions]
            unsent = [alarm for alarm in self.board.on.values() if not alarm.is_sent and not alarm.is_quiet]
        oldest_ms = self._listens_ms - GIVE_UP_MS
        unsent += [each for each in written.alarms if not each.is_sent and (each.over_ms or 0) > oldest_ms]
        for alarm in unsent:
            self._post(alarm)

    def remembered(self, summaries: Sequence[Summary]) -> None:
        self.history.take(summaries)

    def judged(self, verdicts: Sequence[MinuteVerdict]) -> None:
        self.history.take(map(summary_of, verdicts))
        self._take(verdicts)
        self._probe()
        now_ms = self.observer.clock.now_ms()
        if self.observer.health.trouble:
            self._listens_ms = now_ms
        if self._reads_on(now_ms):
            self._knows_ms = now_ms
        programs = self.nodes.shown()  # once: one that answers in between would end what it had no time to say
        causes, unknown = [*self._now(programs)], [*self._unknown(programs)]
        with self._lock:
            said = self.board.update(causes, now_ms, unknown)
        for alarm in said:
            self._say(alarm)
        self.watchers.tell()

    def announced(self, actions: Sequence[Action]) -> None:
        with self._lock:
            self.board.actions += actions

    # Steps.

    def _take(self, verdicts: Iterable[MinuteVerdict]) -> None:
        for verdict in verdicts:
            causes = self._causes.get(verdict.route)
            if causes is not None:
                causes.take(verdict)

    def _now(self, programs: Sequence[Mapping[str, Any]]) -> Iterator[Cause]:
        for of_way in self._causes.values():
            yield from of_way.now()
        observation, log_ms = self.observer.observation, self.observer.health.log_ms
        with self.observer.lock:
            oldest = observation.held_up()
        since, settle = minute_of(self._knows_ms), self._settle_minutes
        yield from held_up(oldest, minute_of(log_ms), settle, since, self.board.on)
        yield from silences(observation.nodes, observation.books.heard_ms, log_ms, self._listens_ms)
        yield from of_statuses(programs)
        yield from headroom(self.state.peak_per_s(), self.state.rating_per_s(), self._observe.rating.m)

    def _unknown(self, programs: Sequence[Mapping[str, Any]]) -> Iterator[str]:
        """How the keys of causes begin of which nothing is known now."""
        observation = self.observer.observation
        yield from not_heard(observation.nodes, observation.books.heard_ms, self._listens_ms)
        yield from not_answering(programs)
        if self._reads_on(self.observer.clock.now_ms()):
            yield VERDICTS
        if self.observer.ratings is None:
            yield HEADROOM

    def _reads_on(self, now_ms: int) -> bool:
        """Whether it has yet to read what nodes said before: it is not known which minutes wait for them."""
        return self.observer.health.log_ms < max(now_ms - _READS_ON_MS, self.observer.observation.begun_ms)

    def _probe(self) -> None:
        """Whoever has been silent in a minute, and has not answered either, is down."""
        minute = minute_of(self.observer.health.log_ms) - 1  # what nodes said later may not be read yet
        if minute == self._probed or self.observer.health.trouble:
            return
        self._probed = minute
        began_s = minute * 60.0
        if self._began_ms > began_s * 1000 or self.nodes.answered_since("ingest", began_s) in (True, None):
            return
        with self.observer.lock:
            observation = self.observer.observation
            for node in observation.nodes:
                is_silent = observation.books.heard_ms.get(node, 0) < began_s * 1000
                if node.kind is NodeKind.ingest and is_silent:
                    observation.not_answering(node, minute)

    def _say(self, alarm: Alarm) -> None:
        level = logging.ERROR if alarm.over_ms is None else logging.INFO
        _log.log(level, "%s%s", "" if alarm.over_ms is None else "over: ", alarm.text, extra={"alarm": alarm.key})
        self._write_alarm(alarm)
        self._post(alarm)

    def _post(self, alarm: Alarm) -> None:
        if self._webhook is not None:
            self._webhook.send(alarm)

    def _sent(self, alarm: Alarm) -> None:
        with self._lock:
            self.board.sent(alarm)
            known = self.board.on.get(alarm.key)
            if known is None and alarm.over_ms is not None:
                self._write_alarm(replace(alarm, is_sent=True))  # here: a new one of this key is written after it
        if known is not None and known.since_ms == alarm.since_ms:
            self._write_alarm(known)
