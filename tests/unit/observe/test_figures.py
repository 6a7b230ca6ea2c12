"""What Prometheus gets of minutes."""

from types import SimpleNamespace
from typing import Any

import pytest

from enrich.config import load_text
from enrich.verdict import HopVerdict, MinuteVerdict, State, Up, encoded
from enrich.verdict.ways import ways_of
from observe_service.page.metrics import _of_minutes
from observe_service.page.state import State as PageState

NOW = 29_930_646
PIPELINE = """
name: plays
kafka: {bootstrap_servers: "localhost:9092"}
ingest: {plays: {listen: "127.0.0.1:8080", path: /v1/plays, topic: plays.raw, format: json, tokens: [x]}}
expel: {acme: {topic: plays.raw, to: {http: {url: "https://acme.example/"}}}}
observe: {loss: {settle: 1h}}
"""


@pytest.mark.parametrize("age", [1, 31, 60, 2_000])
def test_the_newest_judged_minute_is_told_however_long_ago_it_was(age: int) -> None:
    pipeline = load_text(PIPELINE)
    (way,) = ways_of(pipeline)
    hop = HopVerdict("expel", "acme", came=1, went=1)
    records = {
        (way.name, NOW - age): encoded(MinuteVerdict(way.name, NOW - age, State.SETTLED, Up.UP, [hop], lots=[None]))
    }
    observer: Any = SimpleNamespace(
        clock=SimpleNamespace(now_ms=lambda: NOW * 60_000),
        observation=SimpleNamespace(ways=[way], record=lambda route, minute: records.get((route, minute))),
    )
    nothing: Any = None
    state = PageState(pipeline, observer, nothing, nothing, nothing)
    figures = {metric.name: [sample.value for sample in metric.samples] for metric in _of_minutes(state.verdicts_now())}
    assert figures["enrich_observe_minute_seconds"] == [(NOW - age) * 60]


def test_minutes_that_are_not_judged_yet_are_passed_by_unread() -> None:
    """Prometheus asks every few seconds, and of a node that is silent for a day there are a thousand a way."""
    pipeline = load_text(PIPELINE)
    (way,) = ways_of(pipeline)
    hop = HopVerdict("expel", "acme", came=1, went=1)
    records = {NOW - 2_000: encoded(MinuteVerdict(way.name, NOW - 2_000, State.SETTLED, Up.UP, [hop], lots=[None]))}
    unread = encoded(MinuteVerdict(way.name, NOW, State.OPEN, Up.UNKNOWN, [hop], "silent")).replace(b'"expel"', b"?")
    records |= dict.fromkeys(range(NOW - 1_999, NOW), unread)
    observer: Any = SimpleNamespace(
        clock=SimpleNamespace(now_ms=lambda: NOW * 60_000),
        observation=SimpleNamespace(ways=[way], record=lambda _, minute: records.get(minute)),
    )
    nothing: Any = None
    found = PageState(pipeline, observer, nothing, nothing, nothing).verdicts_now()
    assert [verdict.minute for verdict in found] == [NOW - 2_000]
