"""An observer whose clock is wrong judges by the brokers' time."""

import threading
import time
from collections.abc import Callable, Sequence

import pytest

from enrich.config import load
from enrich.tally import Tally
from enrich.verdict import MinuteVerdict
from enrich.verdict.summary import Summary
from observe_service.alarms.board import Action, Alarm
from observe_service.clock import Clock, own_ms
from observe_service.observer import Observer
from observe_service.watching.verdict_log import Written
from tests.support.observe.observing import World
from tests.support.waiting import wait_until


class Heard:
    def __init__(self) -> None:
        self.verdicts: list[MinuteVerdict] = []

    def remembered(self, summaries: Sequence[Summary]) -> None:
        """Nothing."""

    def began(self, written: Written, write_alarm: Callable[[Alarm], None]) -> None:
        """Nothing."""

    def judged(self, verdicts: Sequence[MinuteVerdict]) -> None:
        self.verdicts += verdicts

    def announced(self, actions: Sequence[Action]) -> None:
        """Nothing."""


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
