"""An observer with thirty minutes open: 600,000 events each in random order, a fifth of them twice, four nodes and ten
routes that each take about a third of the events. All of it is said before anything may be judged; then all is due."""

import random
import statistics
import time
from collections.abc import Iterator

import numpy as np
import psutil

from bench.harness import Figures, say
from enrich.tally import Lags, Node, NodeKind, Origins, Report, Tally, decoded, encoded
from enrich.tally.gathering import size_of
from enrich.tally.origins import Read
from enrich.verdict import State
from enrich.verdict.minute import encoded as verdict_record
from enrich.verdict.ways import Hop, Way
from observe_service.verdicts.observation import Observation
from observe_service.verdicts.standing import Sla

MINUTES, EVENTS, REPEATED, REPORTS, PARTITIONS, ROUTES = 30, 600_000, 120_000, 60, 6, 10
_ENTRY, _FIRST = Node("p", NodeKind.ingest, "plays"), Node("p", NodeKind.stage, "first")
_SECOND, _EXPEL = Node("p", NodeKind.stage, "second"), Node("p", NodeKind.expel, "all")
_START = 29_000_000
_ROUTES = [f"route{number}" for number in range(ROUTES)]
_EACH = EVENTS // PARTITIONS
_SETTLE_MS = 60_000


def run() -> Figures:
    hops = [(Hop(_ENTRY), Hop(_FIRST), Hop(_SECOND, route), Hop(_EXPEL)) for route in _ROUTES]
    observation = Observation([Way(way, "raw") for way in hops], _SETTLE_MS, Sla(1_000))
    observation.begin(_START)
    process = psutil.Process()
    before, decoded_s, taken_s, count, wire = process.memory_info().rss, 0.0, 0.0, 0, 0
    for minute in range(_START, _START + MINUTES):
        for record in [*_records(minute)]:
            began = time.perf_counter()
            report = decoded(record)
            between = time.perf_counter()
            observation.take(report, minute * 60_000 + 59_000)
            taken_s += time.perf_counter() - between
            decoded_s += between - began
            count += 1
            wire += len(record)
    grown = process.memory_info().rss - before
    of_nodes, of_routes = _sizes(observation)
    say(f"{count} records; memory grew by {grown / 2**20:.0f} MiB")
    # The nodes have read all there was when the first minute was due: it can be judged, minute by minute.
    topics: dict[Node | None, list[str]] = {
        node: [topic] for node, topic in ((_FIRST, "raw"), (_SECOND, "mid"), (_EXPEL, "out"))
    }
    ends = {(topic, partition): MINUTES * _EACH for topic in ("raw", "mid", "out") for partition in range(PARTITIONS)}
    judged_ms: list[float] = []
    verdicts, now_ms = 0, (_START + MINUTES + 1) * 60_000
    for node in (_FIRST, _SECOND, _EXPEL):
        reads = [Read(topics[node][0], partition, 0, MINUTES * _EACH) for partition in range(PARTITIONS)]
        observation.take(Report(node, "reads", 1, 0, (), reads), now_ms)
    observation.take(Report(_ENTRY, "alive", 1, 0), now_ms)
    for minute in range(_START, _START + MINUTES):
        due_ms = (minute + 1) * 60_000 + _SETTLE_MS
        observation.look(now_ms, ends, topics)
        began = time.perf_counter()
        found = observation.tick(due_ms, now_ms)
        size = sum(len(verdict_record(verdict)) for verdict in found)
        judged_ms.append((time.perf_counter() - began) * 1000 / max(len(found), 1))
        verdicts += len(found)
        if any(verdict.state is not State.SETTLED or verdict.total("lost") for verdict in found) or not size:
            raise AssertionError(f"{[(verdict.state, verdict.reason, verdict.total('lost')) for verdict in found]}")
    if verdicts != MINUTES * ROUTES:
        raise AssertionError(f"{verdicts} verdicts")
    return {
        "tallies_per_s": count / (decoded_s + taken_s),
        "decoded_per_s": count / decoded_s,
        "taken_per_s": count / taken_s,
        "kib_per_node_minute": of_nodes / 1024 / MINUTES / 4,
        "kib_per_route_minute": of_routes / 1024 / MINUTES / ROUTES,
        "wire_kib_per_node_minute": wire / 1024 / MINUTES / 4,
        "verdict_ms": statistics.median(judged_ms),
        "verdict_ms_worst": max(judged_ms),
        "memory_mib": grown / 2**20,
    }


def _sizes(observation: Observation) -> tuple[int, int]:
    """In bytes: the sets and lags of nodes, and the sets of routes. A route that takes a random third of its events is
    a bit for each: no set of it is shorter than 69 KiB a minute."""
    sizes = {True: 0, False: 0}
    for (_, route), known in observation.books.sets.items():
        sets = (known.came, known.went, known.dropped, known.dead, known.waiting)
        sizes[bool(route)] += sum(map(size_of, sets))
    for merged in observation.books.lags.values():
        lag = merged.lag
        sizes[False] += sum(histogram.counts.nbytes for histogram in (lag.came, lag.went, lag.took))
    return sizes[False], sizes[True]


def _records(minute: int) -> Iterator[bytes]:
    source, numbers = np.random.default_rng(minute), random.Random(minute)
    events = np.r_[np.arange(EVENTS), numbers.sample(range(EVENTS), REPEATED)]
    routed = [source.random(EVENTS) < 1 / 3 for _ in _ROUTES]
    base = (minute - _START) * _EACH
    for node in (_ENTRY, _FIRST, _SECOND, _EXPEL):
        order = source.permutation(events)
        for sequence, some in enumerate(np.array_split(order, REPORTS)):
            times = np.full(len(some), minute * 60_000)
            lag = Lags.of(times, times + 20, times + 20 + some % 300).of_minute(minute)
            whole = _origins(some, base)
            tallies = [Tally("", minute, whole, whole, lag=lag)]
            if node is _SECOND:
                tallies += [
                    Tally(name, minute, Origins(), _origins(some[taken[some]], base))
                    for name, taken in zip(_ROUTES, routed, strict=True)
                ]
            report = Report(node, f"{node.name}/{minute}", sequence, minute * 60_000, tallies)
            yield from encoded(report)


def _origins(events: "np.ndarray[tuple[int], np.dtype[np.int64]]", base: int) -> Origins:
    found = Origins()
    for partition in range(PARTITIONS):
        own = events[events % PARTITIONS == partition] // PARTITIONS + base
        if len(own):
            found |= Origins.of_offsets("raw", partition, np.unique(own))
    return found
