"""Which alarms are on, and that none is over only because nothing is known any more."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from enrich.config import load
from enrich.tally import Node, NodeKind
from enrich.verdict import MinuteVerdict, State, Up
from enrich.verdict.minute import HopVerdict
from enrich.verdict.summary import Summary
from enrich.verdict.ways import Hop, Way
from observe_service import observer as observing
from observe_service.alarms.board import Alarm
from observe_service.program import Watch
from observe_service.verdicts.observation import Observation
from observe_service.verdicts.standing import Sla
from observe_service.watching.verdict_log import Written

DOCUMENT = """
name: plays
kafka: {bootstrap_servers: "localhost:9092"}
state_dir: ./state
observe: {}
stages:
  prepare:
    source: {topic: plays.raw, format: json, schema: "user_id string, song string"}
    routes:
      - {name: a, when: "song = 'a'", topic: out.a}
      - {name: b, when: "song = 'b'", topic: out.b}
    dlq: plays.dlq
    otherwise: drop
    checkpoint: ./c
expel:
  acme: {topic: out.a, to: {http: {url: "http://127.0.0.1:9/", allow_private: true}}}
tables:
  users: {topic: users, format: json, columns: "id bigint"}
agent: {metrics_port: 9470}
"""
NOW_MS = 1_800_000_000_000
EXPEL = Node("plays", NodeKind.expel, "acme")


class Watched:
    """The observer's alarms, with what it reads and hears as the test says."""

    def __init__(self, folder: Path) -> None:
        file = folder / "pipeline.yaml"
        file.write_text(DOCUMENT)
        self.watch = Watch(load(file))
        self.observer = self.watch.observer
        self.said: list[tuple[str, bool]] = []
        self.at(0)
        self.observer.health.started_s = NOW_MS / 1000
        self.observer.ratings = ()  # they are read, and nobody has rated it

    def begins(self, *alarms: Alarm) -> None:
        self.watch.began(
            Written([], None, alarms, []), lambda alarm: self.said.append((alarm.key, bool(alarm.over_ms)))
        )

    def at(self, second: float, *, heard: float | None = None) -> None:
        now_ms = NOW_MS + round(second * 1000)
        self.observer.clock = cast(Any, SimpleNamespace(now_ms=lambda: now_ms))
        self.observer.health.log_ms = now_ms
        if heard is not None:
            self.observer.observation.books.heard_ms[EXPEL] = NOW_MS + round(heard * 1000)

    def says(self) -> Sequence[tuple[str, bool]]:
        """Key, and whether it is over."""
        self.said.clear()
        self.watch.judged([])
        return [*self.said]

    def answers(self, name: str, said: dict[str, Any]) -> None:
        self.watch.nodes._answers[name], self.watch.nodes._answered_s[name] = said, NOW_MS / 1000
        self.watch.nodes._failed.pop(name, None)

    def fails(self, name: str) -> None:
        self.watch.nodes._failed[name] = NOW_MS / 1000, "timed out"


@pytest.fixture
def watched(tmp_path: Path) -> Watched:
    return Watched(tmp_path)


ROUTE = {"name": "acme", "state": "running", "details": {"breaker": "closed"}}


@pytest.mark.parametrize(
    ("program", "bad", "good", "key"),
    [
        (
            "expel",
            {"routes": [ROUTE | {"details": {"breaker": "open"}}]},
            {"routes": [ROUTE]},
            "breaker/expel acme",
        ),
        ("expel", {"routes": [ROUTE | {"state": "held"}]}, {"routes": [ROUTE]}, "route/expel acme"),
        ("agent", {"tables": {"users": {"ready": False}}}, {"tables": {"users": {"ready": True}}}, "table/users"),
    ],
)
def test_what_a_program_said_is_over_when_it_says_so_and_not_when_it_does_not_answer(
    watched: Watched, tmp_path: Path, program: str, bad: dict[str, Any], good: dict[str, Any], key: str
) -> None:
    watched.begins()
    for name in ("expel", "agent"):
        watched.answers(name, {})
    watched.at(0, heard=0)
    assert watched.says() == []
    watched.answers(program, bad)
    assert watched.says() == [(key, False)]
    watched.fails(program)
    assert watched.says() == []
    watched.answers(program, bad)
    assert watched.says() == []
    # An observer that comes after this one has asked nobody yet.
    after = Watched(tmp_path)
    after.begins(Alarm(key, "bad", NOW_MS), Alarm("route/expel removed", "is gone", NOW_MS))
    after.at(0, heard=0)
    after.answers({"expel": "agent", "agent": "expel"}[program], {})
    assert (key, True) not in after.says()
    after.answers(program, good)
    assert (key, True) in after.says()
    assert not after.watch.board.on


def test_an_endpoint_that_is_tried_and_does_not_answer_is_one_alarm(watched: Watched) -> None:
    """Between two pauses of its breaker one request goes to it, and may take as long as `timeout` says."""
    watched.begins()
    watched.at(0, heard=0)
    watched.says()
    said = list[tuple[str, bool]]()
    for breaker in ("open", "probing", "open", "probing", "closed"):
        watched.answers("expel", {"routes": [ROUTE | {"details": {"breaker": breaker}}]})
        said += watched.says()
    assert said == [("breaker/expel acme", False), ("breaker/expel acme", True)]


def test_a_cause_that_comes_and_goes_within_a_minute_is_an_alarm_of_its_own_each_time(
    watched: Watched, tmp_path: Path
) -> None:
    """By `webhook-id` its receiver leaves out what it has already."""
    posted, written = list[str](), list[Alarm]()

    def flaps(each: Watched) -> None:
        each.watch._webhook = cast(Any, SimpleNamespace(send=lambda alarm: posted.append(alarm.id), close=lambda: None))
        newest = {alarm.key: alarm for alarm in written}
        each.watch.began(Written([], None, [*newest.values()], []), written.append)
        for second, state in enumerate(("held", "running", "held", "running")):
            each.at(second, heard=0)
            each.answers("expel", {"routes": [ROUTE | {"state": state}]})
            each.watch.judged([])

    flaps(watched)
    flaps(Watched(tmp_path))  # who comes next knows which there were
    ids = [*dict.fromkeys(posted)]
    minute = NOW_MS // 60_000
    assert ids == [
        f"route/expel acme@{minute}{again}{end}" for again in ("", ".1", ".2", ".3") for end in ("", "/over")
    ]


def test_a_silence_is_over_when_the_node_speaks(watched: Watched) -> None:
    key = "silence/expel/acme"
    watched.begins()
    watched.at(30, heard=0)
    assert watched.says() == []
    watched.at(70)
    assert watched.says() == [(key, False)]
    watched.at(80)
    watched.observer.health.trouble = {"kafka": "the brokers are away"}
    assert watched.says() == []
    watched.at(200)
    assert watched.says() == []
    # They are back, and it has had no time to say anything.
    watched.observer.health.trouble = {}
    assert watched.says() == []
    watched.at(205, heard=204)
    assert watched.says() == [(key, True)]
    # They were away for long: that it was not heard meanwhile is no silence.
    watched.observer.health.trouble = {"kafka": "the brokers are away"}
    watched.at(400)
    assert watched.says() == []
    watched.observer.health.trouble = {}
    watched.at(405)
    assert watched.says() == []
    watched.at(461)
    assert watched.says() == [(key, False)]


def test_a_silence_goes_on_over_a_restart_of_the_observer(watched: Watched) -> None:
    key = "silence/expel/acme"
    watched.begins(Alarm(key, "silent", NOW_MS - 60_000))
    watched.at(5, heard=-120)  # of what was said before it began
    assert watched.says() == []
    watched.at(70)
    assert watched.says() == []
    watched.at(71, heard=71)
    assert watched.says() == [(key, True)]


def test_the_headroom_is_not_known_before_ratings_are_read(watched: Watched) -> None:
    ways = watched.observer.observation.ways
    minute = NOW_MS // 60_000 - 5
    watched.watch.remembered([Summary(way.name, minute, State.SETTLED, Up.UP, 6_000, 0, 5.0) for way in ways])
    watched.observer.ratings = None
    watched.begins(Alarm("headroom", "little", NOW_MS))
    watched.at(0, heard=0)
    assert watched.says() == []
    watched.observer.ratings = [{"route": ways[0].name, "rating_per_s": 500.0}]
    assert watched.says() == []
    watched.observer.ratings = [{"route": ways[0].name, "rating_per_s": 5_000.0}]
    assert watched.says() == [("headroom", True)]


def test_the_peak_counts_an_event_once_whatever_routes_its_stage_has(watched: Watched) -> None:
    ways = [way.name for way in watched.observer.observation.ways]
    assert ways == ["prepare.a > acme", "prepare.b"]
    minute = NOW_MS // 60_000 - 5
    watched.watch.remembered([Summary(way, minute, State.SETTLED, Up.UP, 6_000, 0, 5.0) for way in ways])
    assert watched.watch.state.peak_per_s() == 100


def test_ratings_are_read_before_anything_is_made_of_verdicts(
    watched: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    observer, seen = watched.observer, []
    observer.ratings = None
    monkeypatch.setattr(observing, "kept", lambda *_: [{"route": "a rating"}])

    def judged(_: object) -> None:
        seen.append(observer.ratings)
        observer.stop()

    observer._listener = cast(Any, SimpleNamespace(judged=judged, announced=lambda _: None))
    reports = SimpleNamespace(poll=lambda _: [], until_ms=NOW_MS, unreadable=0, trouble=None)
    log = SimpleNamespace(write=lambda *_: None, trouble=None, read_on=lambda: Written([], None, [], []))
    observer._go_on(*(cast(Any, each) for each in (None, reports, SimpleNamespace(trouble=None), None, log)))
    assert seen == [[{"route": "a rating"}]]


def test_the_end_of_an_alarm_that_nobody_has_heard_of_is_sent_by_the_observer_that_follows(
    watched: Watched, tmp_path: Path
) -> None:
    alarm = Alarm("route/expel acme", "acme is held", NOW_MS - 60_000, is_sent=True)
    over = replace(alarm, over_ms=NOW_MS - 1_000, is_sent=False)
    posted, written = list[Alarm](), list[Alarm]()
    watched.watch._webhook = cast(Any, SimpleNamespace(send=posted.append, close=lambda: None))
    watched.watch.began(Written([], None, [over], []), written.append)
    assert (posted, written) == ([over], [])
    watched.watch._sent(over)
    assert written == [replace(over, is_sent=True)]
    after, again = Watched(tmp_path), list[Alarm]()
    after.watch._webhook = cast(Any, SimpleNamespace(send=again.append, close=lambda: None))
    long_ago = replace(over, key="route/expel old", over_ms=NOW_MS - 90_000_000)
    after.watch.began(Written([], None, [*written, long_ago], []), written.append)
    assert again == []


def test_a_silence_is_over_whoever_else_is_silent(watched: Watched) -> None:
    """Nothing was heard of `acme` yet, and of `acme2` something was."""
    watched.observer.observation = Observation(
        [Way((Hop(EXPEL),)), Way((Hop(Node("plays", NodeKind.expel, "acme2")),))], 60_000, Sla(1_000)
    )
    key = "silence/expel/acme2"
    watched.begins(Alarm(key, "silent", NOW_MS - 60_000))
    watched.at(5)
    assert watched.says() == []
    watched.observer.observation.books.heard_ms[Node("plays", NodeKind.expel, "acme2")] = NOW_MS + 5_000
    assert watched.says() == [(key, True)]


def settled(way: str, minute: int, lost: int = 0) -> MinuteVerdict:
    hop = HopVerdict("expel", "acme", came=100, went=100 - lost, lost=lost)
    return MinuteVerdict(way, minute, State.SETTLED, Up.DOWN if lost else Up.UP, [hop], why="lost" if lost else None)


def test_a_loss_is_not_over_because_its_observer_was_away_for_hours(watched: Watched) -> None:
    way, minute = "prepare.a > acme", NOW_MS // 60_000
    keys = [f"loss/{way}", f"lag/{way}"]
    watched.begins(*(Alarm(key, "was there two hours ago", NOW_MS - 7_200_000) for key in keys))
    watched.at(0, heard=0)
    assert watched.says() == []
    watched.watch._take(settled(way, minute - 100 + number) for number in range(4))
    assert watched.says() == []
    watched.watch._take([settled(way, minute - 90)])
    assert watched.says() == [(key, True) for key in keys]


def waits(watched: Watched, since_minute: int, second: int) -> None:
    """Minutes for the stage, from this one on. It is asked at this second."""
    observation, now_ms = watched.observer.observation, NOW_MS + second * 1_000
    if second == 0:
        observation.begin(NOW_MS // 60_000 + since_minute)
    watched.at(second, heard=second)
    observation.look(now_ms, {("plays.raw", 0): 10}, {each: ["plays.raw"] for each in observation.nodes})
    observation.tick(now_ms, now_ms)


HELD = [f"verdicts/{way}" for way in ("prepare.a > acme", "prepare.b")]


def test_a_way_that_was_held_up_is_judged_only_once_all_is_read_that_it_may_wait_for(watched: Watched) -> None:
    watched.begins(*(Alarm(key, "was there before", NOW_MS - 7_200_000) for key in HELD))
    watched.observer.observation.begun_ms = NOW_MS
    for behind_s in (120, 30):
        watched.at(0, heard=0)
        watched.observer.health.log_ms = NOW_MS - behind_s * 1_000
        assert watched.says() == []
    watched.at(1, heard=0)
    assert watched.says() == [(key, True) for key in HELD]


def test_a_way_that_is_held_up_stays_so_over_a_restart_of_the_observer(watched: Watched) -> None:
    """Although it waits for less than it takes to become a cause."""
    watched.begins(*(Alarm(key, "was there before", NOW_MS - 7_200_000) for key in HELD))
    waits(watched, -11, 0)
    assert watched.says() == []
    waits(watched, -11, 1)
    assert watched.says() == []


def test_minutes_in_which_nobody_could_hear_nodes_have_not_waited_for_them(watched: Watched) -> None:
    """An observer that was away, or whose brokers were: nodes have had no time to say anything yet."""
    watched.begins()
    waits(watched, -60, 0)
    assert watched.says() == []
    watched.at(1_200)
    watched.observer.health.log_ms, watched.observer.health.trouble = NOW_MS, {"tallies": "the brokers are away"}
    assert watched.says() == []
    watched.observer.health.trouble = {}
    waits(watched, -60, 1_201)
    assert watched.says() == []
    waits(watched, -60, 1_201 + 661)
    assert watched.says() == [(key, False) for key in HELD]


def test_a_stage_that_has_ended_is_a_cause_once_something_waits_for_it(watched: Watched) -> None:
    watched.begins()
    minute = NOW_MS // 60_000
    watched.observer.observation.begin(minute)
    place = ("plays.raw", 0)
    for second in range(0, 1_200, 30):
        watched.at(second, heard=second)
        observation = watched.observer.observation
        observation.look(NOW_MS + second * 1_000, {place: 10}, {each: ["plays.raw"] for each in observation.nodes})
        observation.tick(NOW_MS + second * 1_000, NOW_MS + second * 1_000)
        said = {key for key, is_over in watched.says() if not is_over}
        # The minute was due when it had settled, ten minutes before.
        assert said == ({"verdicts/prepare.a > acme", "verdicts/prepare.b"} if second == 60 + 180 + 600 else set())
