"""What is read of a verdict in short."""

import json

import numpy as np
import pytest

from enrich.base.errors import BadRecord
from enrich.tally.lags import NO_LAG, Lag
from enrich.verdict import MinuteVerdict, State, Up, decoded, encoded
from enrich.verdict.minute import HopVerdict
from enrich.verdict.summary import read_summary, summary_of


def verdict(lag: Lag = NO_LAG) -> MinuteVerdict:
    hops = [
        HopVerdict("ingest", "plays", came=10, went=10),
        HopVerdict("expel", "acme", came=10, went=7, lost=3, lag=lag),
    ]
    return MinuteVerdict("plays > acme", 29_930_646, State.SETTLED, Up.DOWN, hops)


def test_it_is_the_same_as_of_the_whole_one() -> None:
    times = np.arange(10) + 10**12
    for each in verdict(), verdict(Lag.of(times, times + 5, 10**12 + 100)):
        found = read_summary(encoded(each))
        assert found == summary_of(each)
        assert (found.minute, found.came, found.lost) == (29_930_646, 10, 3)
    assert summary_of(verdict()).p95_ms is None


@pytest.mark.parametrize("change", [{"version": 2}, {"minute": "noon"}, {"up": "sideways"}, {"in": "many"}])
def test_what_is_no_verdict_of_this_release_is_refused(change: dict[str, object]) -> None:
    with pytest.raises(BadRecord, match="a verdict cannot be read"):
        read_summary(json.dumps(json.loads(encoded(verdict())) | change).encode())


@pytest.mark.parametrize("name", ["nonsense", "plays.raw/0/9-1", "plays.raw/0/-1", ""])
def test_a_verdict_that_names_what_is_no_origin_is_refused(name: str) -> None:
    """An observer that begins with it would end each time, and try again for good."""
    content = json.loads(encoded(verdict()))
    content["hops"][1]["names"] = {"lost": ["plays.raw/0/1-2", name]}
    with pytest.raises(BadRecord, match="a verdict cannot be read"):
        decoded(json.dumps(content).encode())
