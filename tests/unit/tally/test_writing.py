"""What a node has to say is kept for a while, within bounds."""

import math
import threading
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any, cast

import pytest

from enrich.base.errors import Retryable
from enrich.kafka import Topics
from enrich.tally import Histogram, NodeKind, Origins, Report, Tally, decoded
from enrich.tally.lags import Lag
from enrich.tally.writing import TallyWriter
from tests.support.waiting import wait_until


def away() -> Topics:
    raise Retryable("the brokers do not answer", where="kafka")


@pytest.fixture
def writer() -> Iterator[TallyWriter]:
    """Its topic is not there."""
    writer = TallyWriter({}, "plays", "plays.tallies", away)
    yield writer
    writer.stop()


def test_while_the_topic_is_not_there_what_waits_is_bounded(writer: TallyWriter) -> None:
    reporter = writer.reporter(NodeKind.ingest, "plays")
    some = Histogram.of([5])
    lag = Lag(some, some, some)
    for minute in range(0, 30_000, 100):
        went = Origins.of_ranges([("t", 0, minute, minute)])
        reporter.report([Tally("", minute + each, went=went, lag=lag) for each in range(100)])
        if writer.given_up:
            break
    assert writer.given_up == 1
    assert minute > 10_000
    assert reporter.is_idle


class Brokers:
    """In the place of a producer. They acknowledge a record when a test says so."""

    def __init__(self) -> None:
        self.values: list[bytes] = []
        self._reported: list[Callable[[None, None], None]] = []

    def produce(self, _topic: str, value: bytes, _key: bytes, on_delivery: Callable[[None, None], None]) -> None:
        self._reported.append(on_delivery)
        self.values.append(value)

    def acknowledge(self, number: int) -> None:
        wait_until(lambda: len(self.values) > number, what="the record")
        self._reported[number](None, None)

    def reports(self) -> list[Report]:
        return [decoded(value) for value in self.values]

    def poll(self, seconds: float) -> None:
        threading.Event().wait(seconds)

    def purge(self) -> None: ...


@pytest.fixture
def brokers(monkeypatch: pytest.MonkeyPatch) -> Brokers:
    brokers = Brokers()
    monkeypatch.setattr("enrich.tally.writing.new_producer", lambda *_, **__: brokers)
    monkeypatch.setattr("enrich.tally.writing._ALIVE_EVERY_S", math.inf)
    return brokers


def test_while_something_is_under_way_what_is_reported_meanwhile_is_not_said(brokers: Brokers) -> None:
    """A node commits once it is: after a kill nobody would say it."""
    topics = cast(Any, SimpleNamespace(ensure=lambda *_, **__: None))
    writer = TallyWriter({}, "plays", "plays.tallies", lambda: topics)
    try:
        wait_until(lambda: writer.is_ready, what="the topic")
        reporter = writer.reporter(NodeKind.expel, "acme")
        went = [Origins.of_ranges([("t", 0, offset, offset)]) for offset in range(2)]
        reporter.report([Tally("", 1, went=went[0])])
        reporter.report([Tally("", 1, went=went[1])])
        brokers.acknowledge(0)
        assert not reporter.is_said(0.2)
        brokers.acknowledge(1)
        assert reporter.is_said(60)
        said = brokers.reports()
        assert [tally.went for report in said for tally in report.tallies] == went
        assert len({(report.reporter, report.sequence) for report in said}) == 2
    finally:
        writer.stop()
