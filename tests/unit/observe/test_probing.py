"""An ingest that says nothing and does not answer is down, and not one of which nothing could be heard."""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from enrich.config import load
from enrich.tally import Node, NodeKind
from observe_service.program import Watch
from observe_service.watching.verdict_log import Written
from tests.support.servers.scripted_endpoint import ScriptedEndpoint, answers
from tests.support.waiting import wait_until

DOCUMENT = """
name: plays
kafka: {bootstrap_servers: "localhost:9092"}
state_dir: ./state
observe: {}
ingest:
  plays: {path: /plays, topic: plays.raw, format: json}
"""
MINUTE = 30_000_000
INGEST = Node("plays", NodeKind.ingest, "plays")


class Watched:
    """The page of ingest is on another host, and never answers."""

    def __init__(self, folder: Path, page: str = "192.0.2.1:9401") -> None:
        self.folder = folder
        file = folder / "pipeline.yaml"
        file.write_text(f"{DOCUMENT}pages: {{ingest: '{page}'}}\n")
        self.watch = Watch(load(file))
        self.observer = self.watch.observer
        self.observer.health.started_s = (MINUTE - 20) * 60.0
        self.observer.ratings = ()

    def at(self, minute: float, *, known: float | None = None, heard: float | None = None) -> None:
        """`known`: up to when all that nodes have said is read. `heard`: when ingest said something."""
        now_ms = round(minute * 60_000)
        self.observer.clock = cast(Any, SimpleNamespace(now_ms=lambda: now_ms))
        self.observer.health.log_ms = now_ms if known is None else round(known * 60_000)
        if heard is not None:
            self.observer.observation.books.heard_ms[INGEST] = round(heard * 60_000)

    def begins(self) -> None:
        self.watch.began(Written([], None, [], []), lambda _: None)

    def down(self) -> set[int]:
        """The minutes that are since the last time."""
        self.watch.judged([])
        found = {minute for _, minute in self.observer.observation._touched}
        self.observer.observation._touched.clear()
        return found


@pytest.fixture
def watched(tmp_path: Path) -> Watched:
    return Watched(tmp_path)


def test_an_ingest_that_is_silent_for_a_minute_and_does_not_answer_is_down(watched: Watched) -> None:
    watched.at(MINUTE - 9.5)
    watched.begins()
    watched.at(MINUTE + 1.1, heard=MINUTE + 0.5)
    assert watched.down() == set()
    watched.at(MINUTE + 2.1)
    assert watched.down() == {MINUTE + 1}
    assert watched.down() == set()


def test_when_a_page_has_answered_is_known_by_the_clock_of_the_minutes(watched: Watched) -> None:
    """By that of a host which is years ahead, a page that has answered once would answer for years."""
    first = MINUTE // 2
    answer = json.dumps({"pipeline": "plays", "routes": []}).encode()
    with ScriptedEndpoint(answers(200, answer)) as endpoint:
        watched = Watched(watched.folder, f"127.0.0.1:{endpoint.port}")
        watched.at(first - 9.5)
        watched.begins()
        watched.watch.nodes.start()
        wait_until(lambda: watched.watch.nodes.shown()[0]["answers"], what="an answer")
        watched.watch.nodes.stop()
    watched.at(first + 2.1, heard=first + 0.5)
    assert watched.down() == {first + 1}


def test_an_observer_that_has_not_read_what_ingest_said_calls_no_minute_down(watched: Watched) -> None:
    watched.at(MINUTE - 9.5)
    watched.begins()
    watched.at(MINUTE + 2.1, known=MINUTE - 2, heard=MINUTE - 2)
    assert watched.down() == set()
    watched.at(MINUTE + 3.1, known=MINUTE, heard=MINUTE)
    assert watched.down() == set()
    watched.at(MINUTE + 4.1, heard=MINUTE + 2)
    assert watched.down() == {MINUTE + 3}


def test_an_observer_that_has_just_come_to_the_brokers_calls_no_minute_down(watched: Watched) -> None:
    """They were away when it was started."""
    watched.at(MINUTE + 1.1, known=MINUTE - 3)
    watched.begins()
    assert watched.down() == set()
    watched.at(MINUTE + 1.2, heard=MINUTE + 1.15)
    assert watched.down() == set()
    watched.at(MINUTE + 3.1)
    assert watched.down() == {MINUTE + 2}
