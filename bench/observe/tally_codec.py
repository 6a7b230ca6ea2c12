"""Reports of a node for a minute of 600,000 events in random order, a fifth of them twice: encoded, decoded, added up.

Sixty reports, one a second, as expel makes them. They are random within the minute, so each report alone is a sparse
set; together they are a range again.
"""

import random
import time

import numpy as np

from bench.harness import Figures
from enrich.tally import Lags, Merged, Node, NodeKind, Origins, Report, Tally, decoded, encoded
from enrich.tally.gathering import size_of

EVENTS, REPEATED, REPORTS, PARTITIONS = 600_000, 120_000, 60, 6
NODE = Node("plays", NodeKind.expel, "acme")
START_MS = 1_700_000_040_000


def run() -> Figures:
    reports = _reports()
    began = time.perf_counter()
    records = [record for report in reports for record in encoded(report)]
    encoded_s = time.perf_counter() - began
    began = time.perf_counter()
    found = [decoded(record) for record in records]
    decoded_s = time.perf_counter() - began
    merged = Merged()
    began = time.perf_counter()
    for report in found:
        merged.take(report)
    merged_s = time.perf_counter() - began
    whole = merged.of(NODE)
    if len(whole.went) != EVENTS or whole.lag.went.count != EVENTS + REPEATED:
        raise AssertionError(f"{len(whole.went)} events, {whole.lag.went.count} lags")
    sets = (whole.came, whole.went)
    histograms = (whole.lag.came, whole.lag.went, whole.lag.took)
    memory = sum(map(size_of, sets)) + sum(histogram.counts.nbytes for histogram in histograms)
    return {
        "tallies_per_s": len(records) / (encoded_s + decoded_s + merged_s),
        "encoded_per_s": len(records) / encoded_s,
        "decoded_per_s": len(records) / decoded_s,
        "merged_per_s": len(records) / merged_s,
        "kib_per_node_minute": memory / 1024,
        "wire_kib_per_node_minute": sum(map(len, records)) / 1024,
        "wire_kib_in_order": sum(len(record) for report in _reports(in_order=True) for record in encoded(report))
        / 1024,
    }


def _reports(*, in_order: bool = False) -> list[Report]:
    source, numbers = np.random.default_rng(7), random.Random(7)
    events = source.permutation(np.r_[np.arange(EVENTS), numbers.sample(range(EVENTS), REPEATED)])
    if in_order:
        events = np.sort(events)
    reports = []
    for sequence, some in enumerate(np.array_split(events, REPORTS)):
        went = Origins()
        for partition in range(PARTITIONS):
            went |= Origins.of_offsets("plays.raw", partition, some[some % PARTITIONS == partition] // PARTITIONS)
        times = START_MS + some // 10
        came = times + source.lognormal(2.5, 0.7, len(some)).astype(np.int64)
        lags = Lags.of(times, came, came + source.lognormal(3.5, 0.5, len(some)).astype(np.int64))
        tallies = [Tally(came=went, went=went), *(Tally(minute=m, lag=lag) for m, lag in lags.by_minute.items())]
        reports.append(Report(NODE, "reporter", sequence, START_MS, tallies))
    return reports
