"""Random reports of few nodes about few events, so that they meet."""

import numpy as np
from hypothesis import strategies as st

from enrich.tally import Histogram, Node, NodeKind, Origins, Report, Tally
from enrich.tally.lags import Lag
from enrich.tally.origins import Read

offsets = st.one_of(
    st.integers(0, 200), st.integers(2**16 - 3, 2**16 + 3), st.integers(2**32 - 3, 2**32 + 3), st.just(2**63 - 1)
)
places = st.tuples(st.sampled_from(["plays.raw", "ads.raw", "é"]), st.sampled_from([0, 1, 2**31 - 1]))
triples = st.sets(st.tuples(places, offsets), max_size=30)


def origins_of(some: "set[tuple[tuple[str, int], int]]") -> Origins:
    return Origins.of_ranges((topic, partition, offset, offset) for (topic, partition), offset in some)


origins = triples.map(origins_of)
durations = st.lists(st.one_of(st.integers(-5, 300), st.integers(-(2**40), 2**62)), max_size=20)
histograms = durations.map(lambda some: Histogram.of(np.array(some, np.int64)))
lags = st.builds(Lag, histograms, histograms, histograms)
minutes = st.one_of(st.none(), st.integers(-3, 3), st.integers(-(10**12), 10**12))
tallies = st.builds(Tally, st.sampled_from(["", "acme"]), minutes, origins, origins, origins, origins, origins, lags)
nodes = st.builds(Node, st.just("plays"), st.sampled_from(NodeKind), st.sampled_from(["a", "b"]))


def _read(topic: str, partition: int, first: int, length: int) -> Read:
    return Read(topic, partition, first, first + length)


reads = st.builds(
    _read, st.sampled_from(["plays.raw", "x"]), st.integers(0, 3), st.integers(0, 2**62), st.integers(0, 2**20)
)


def _once_each(some: list[Tally]) -> list[Tally]:
    return list({(tally.route, tally.minute): tally for tally in some}.values())


reports = st.builds(
    Report,
    nodes,
    st.sampled_from(["r1", "r2", "r3"]),
    st.integers(0, 2**40),
    st.integers(0, 2**42),
    st.lists(tallies, max_size=4).map(_once_each),
    st.lists(reads, max_size=3),
)
