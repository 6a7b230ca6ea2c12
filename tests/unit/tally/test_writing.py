"""What a node has to say is kept for a while, within bounds."""

from collections.abc import Iterator

import pytest

from enrich.base.errors import Retryable
from enrich.kafka import Topics
from enrich.tally import Histogram, NodeKind, Origins, Tally
from enrich.tally.lags import Lag
from enrich.tally.writing import TallyWriter


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
