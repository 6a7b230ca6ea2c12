"""An observer whose clock is wrong judges by the brokers' time."""

import threading
import time
from collections.abc import Callable, Sequence
from types import SimpleNamespace

import pytest

from enrich.admin import observing as observing_of_commands
from enrich.admin.observing import announced
from enrich.config import load
from enrich.tally import Tally
from enrich.tally.origins import Read
from enrich.verdict import MinuteVerdict
from enrich.verdict.summary import Summary
from observe_service.alarms.board import Action, Alarm
from observe_service.clock import Clock, own_ms
from observe_service.observer import Observer
from observe_service.watching.verdict_log import Written
from tests.support.commands import enrich, lines
from tests.support.observe.observing import World, observing
from tests.support.waiting import wait_until


class Heard:
    def __init__(self) -> None:
        self.verdicts: list[MinuteVerdict] = []
        self.actions: list[Action] = []

    def remembered(self, summaries: Sequence[Summary]) -> None:
        """Nothing."""

    def began(self, written: Written, write_alarm: Callable[[Alarm], None]) -> None:
        """Nothing."""

    def judged(self, verdicts: Sequence[MinuteVerdict]) -> None:
        self.verdicts += verdicts

    def announced(self, actions: Sequence[Action]) -> None:
        self.actions += actions


@pytest.mark.parametrize("ahead_s", [3_600, -3_600])
def test_it_judges_by_the_time_of_the_brokers(new_world: Callable[..., World], ahead_s: int) -> None:
    world, heard = new_world(loss={"settle": "10s"}), Heard()
    clock = Clock(lambda: own_ms() + ahead_s * 1_000)
    observer = Observer(load(world.file), heard, clock)
    thread = threading.Thread(target=observer.run)
    thread.start()
    try:
        wait_until(lambda: observer.health.is_ready, what="readiness")
        assert abs(clock.now_ms() - own_ms()) < 5_000
        minute = int(time.time()) // 60
        world.say("plays", Tally("", minute, world.of(range(10)), world.of(range(10))))
        wait_until(lambda: observer.health.reports > 0, what="the report")
        with observer.lock:
            shown = observer.observation.now(clock.now_ms())
        assert [verdict.came for verdict in shown if verdict.minute == minute] == [10]
        assert all(verdict.minute <= minute + 1 for verdict in heard.verdicts)
    finally:
        observer.stop()
        thread.join()


@pytest.mark.parametrize("ahead_s", [3_600, -3_600])
def test_an_action_is_announced_by_the_time_of_the_brokers(
    new_world: Callable[..., World], ahead_s: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From a host whose clock is behind it would be over before it began."""
    world, heard, now_ns = new_world(), Heard(), time.time_ns
    observer = Observer(load(world.file), heard)
    thread = threading.Thread(target=observer.run)
    thread.start()
    try:
        wait_until(lambda: observer.health.is_ready, what="readiness")
        wrong = SimpleNamespace(time_ns=lambda: now_ns() + ahead_s * 10**9)
        monkeypatch.setattr(observing_of_commands, "time", wrong)
        announced(load(world.file), "new brokers", 600.0)
        wait_until(lambda: heard.actions, what="the action")
    finally:
        observer.stop()
        thread.join()
    (action,) = heard.actions
    assert abs(action.from_ms - now_ns() // 10**6) < 300_000
    assert action.until_ms - action.from_ms == 600_000


def test_events_that_the_stage_has_not_read_yet_are_not_lost_although_the_clock_of_ingest_is_behind(
    new_world: Callable[..., World],
) -> None:
    """By the times of its records they were there before all that is judged."""
    world, minute = new_world(loss={"settle": "10s"}), int(time.time()) // 60 - 2
    world.goes_on_at(minute, read={"first": [f"{world.raw}/0/0"]})
    world.comes_in(10, minute * 60_000 - 900_000)
    world.say("plays", Tally("", minute, world.of(range(10)), world.of(range(10))), at_ms=minute * 60_000 + 30_000)
    world.alive()
    with observing(world.file) as observer:
        observer.until_ready()
        world.say("first")
        ready_ms = time.time() * 1000
        known = lambda: observer.json("/status")["observer"]["known_until_ms"]  # noqa: E731
        wait_until(lambda: known() > ready_ms + 2_000, what="looks at the ends of topics")
        verdict = world.verdict(minute)
        assert verdict is not None
        assert (verdict.state, verdict.reason) == ("open", "stage first is behind: 10 events are open")
        gone = [Tally("", minute, world.of(range(10)), world.of([]), dropped=world.of(range(10)))]
        world.say("first", *gone, reads=[Read(world.raw, 0, 0, 10)])
        found = world.settled(minute)
        assert (found.came, found.total("dropped"), found.total("lost")) == (10, 10, 0)


def test_an_event_is_traced_although_the_clock_of_ingest_is_ahead(new_world: Callable[..., World]) -> None:
    world, now_ms = new_world(), time.time_ns() // 10**6
    world.comes_in(1, now_ms + 600_000)
    world.say("plays", Tally("", now_ms // 60_000 + 10, world.of([0]), world.of([0])))
    world.say("first", Tally("", None, world.of([0]), world.of([0])), at_ms=now_ms + 900_000)
    found = lines(enrich("observe", "trace", "-c", world.file, f"{world.raw}/0/0", "--json"))
    assert [(step["node"], step["what"]) for step in found] == [("ingest plays", "went"), ("stage first", "went")]
