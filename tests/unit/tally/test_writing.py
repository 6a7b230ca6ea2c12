"""What a node has to say is kept for a while, within bounds."""

import math
import threading
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any, cast

import pytest
from confluent_kafka import KafkaError

from enrich.base.errors import Retryable
from enrich.kafka import Topics
from enrich.tally import Histogram, NodeKind, Origins, Report, Tally, decoded
from enrich.tally.lags import Lag
from enrich.tally.writing import Reporter, TallyWriter
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


Reported = Callable[[KafkaError | None, None], None]


class Brokers:
    """In the place of a producer. They acknowledge a record when a test says so."""

    def __init__(self) -> None:
        self.values: list[bytes] = []
        self._reported: list[Reported] = []

    def produce(self, _topic: str, value: bytes, _key: bytes, on_delivery: Reported) -> None:
        self._reported.append(on_delivery)
        self.values.append(value)

    def acknowledge(self, number: int, error: KafkaError | None = None) -> None:
        wait_until(lambda: len(self.values) > number, what="the record")
        self._reported[number](error, None)

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


@pytest.fixture
def reporter(brokers: Brokers) -> Iterator[Reporter]:
    topics = cast(Any, SimpleNamespace(ensure=lambda *_, **__: None))
    writer = TallyWriter({}, "plays", "plays.tallies", lambda: topics)
    wait_until(lambda: writer.is_ready, what="the topic")
    yield writer.reporter(NodeKind.expel, "acme")
    writer.stop()


def test_while_something_is_under_way_what_is_reported_meanwhile_is_not_said(
    reporter: Reporter, brokers: Brokers
) -> None:
    """A node commits once it is: after a kill nobody would say it."""
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


def test_what_the_brokers_refuse_is_not_said_and_is_said_again_under_the_same_number(
    reporter: Reporter, brokers: Brokers
) -> None:
    """Who has heard it nevertheless does not count it twice."""
    reporter.report([Tally("", 1, went=Origins.of_ranges([("t", 0, 0, 0)]))])
    brokers.acknowledge(0, KafkaError(KafkaError._MSG_TIMED_OUT))
    assert not reporter.is_said(60)
    brokers.acknowledge(1)
    assert reporter.is_said(60)
    first, second = brokers.reports()
    assert second == first
