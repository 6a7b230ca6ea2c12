"""What Prometheus gets of minutes."""

from types import SimpleNamespace
from typing import Any, cast

import pytest

from enrich.config import load_text
from enrich.verdict import HopVerdict, MinuteVerdict, State, Up, encoded
from enrich.verdict.summary import Summary
from enrich.verdict.ways import ways_of
from observe_service.history import History
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


def peak(document: str, came: dict[int, dict[str, int]]) -> float:
    """Events a second of the busiest minute. `came`: how many came in, by minutes ago and way."""
    pipeline, history, nothing = load_text(document), History(7), cast(Any, None)
    for age, by_way in came.items():
        history.take([Summary(way, NOW - age, State.SETTLED, Up.UP, count, 0, 5.0) for way, count in by_way.items()])
    observation = SimpleNamespace(ways=ways_of(pipeline))
    observer: Any = SimpleNamespace(clock=SimpleNamespace(now_ms=lambda: NOW * 60_000), observation=observation)
    assert {way.name for way in observation.ways} == {way for by_way in came.values() for way in by_way}
    return PageState(pipeline, observer, history, nothing, nothing).peak_per_s()


TWO_ENTRIES = PIPELINE.replace(
    "expel: {", 'expel: {ads: {topic: ads.raw, to: {http: {url: "https://ads.example/"}}}, '
).replace("ingest: {", 'ingest: {ads: {listen: "127.0.0.1:8081", path: /v1/ads, topic: ads.raw, format: json}, ')


def test_the_busiest_minute_of_two_entries_is_one_minute() -> None:
    """At noon the one has most, and at night the other: never did so many events come in together."""
    noon, night = {"plays > acme": 6_000, "ads > ads": 600}, {"plays > acme": 1_200, "ads > ads": 3_000}
    assert peak(TWO_ENTRIES, {60: noon, 3_000: night}) == 110


def test_events_of_a_topic_that_two_nodes_read_count_once() -> None:
    document = PIPELINE.replace(
        "expel: {", 'expel: {other: {topic: plays.raw, to: {http: {url: "https://b.example/"}}}, '
    )
    document = "\n".join(line for line in document.splitlines() if not line.startswith("ingest"))
    assert peak(document, {60: {"acme": 6_000, "other": 5_940}}) == 100
