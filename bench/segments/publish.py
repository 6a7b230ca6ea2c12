"""What the one writer of segments costs: a publication, a steady stream of them with merges, and a new base."""

import statistics
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pyarrow as pa

from bench.harness import Figures, say
from bench.segments.data import (
    SPEC,
    building,
    changed,
    fill,
    keys_of,
    next_seq,
    open_writer,
    pieces,
    segments_directory,
    update,
    values_of,
    versions_of,
)
from stores.segments import SegmentsWriter

ROWS = 1_000_000
CHANGED = 1_000
PUBLICATIONS = 300
PUBLICATIONS_A_SECOND = 20
"""Of 1,000 rows each: more than the steady stream, so that the base is merged meanwhile, too."""
STEADY_S = 15
PER_SECOND = 50
"""Publications of as many rows as make 1,000 updates a second."""
BUILDS = 5


def run() -> Figures:
    pa.set_cpu_count(1)
    with segments_directory() as directory:
        say("building the base")
        writer = open_writer(directory / "publish", {"users": SPEC})
        fill(writer, "users", ROWS)
        with _merging(writer):
            milliseconds, processor_ms = _publications(writer)
        writer = open_writer(directory / "steady", {"users": SPEC})
        fill(writer, "users", ROWS)
        with _merging(writer):
            share, segments = _steady(writer)
        builds = [_build(directory / f"build-{number}") for number in range(BUILDS)]
    return {
        "publish_p95_ms": statistics.quantiles(milliseconds, n=20)[-1],
        "publish_p50_ms": statistics.median(milliseconds),
        "publish_processor_ms": statistics.median(processor_ms),
        "core_share": share,
        "segments_at_most": segments,
        "build_1m_s": statistics.median(cpu for cpu, _ in builds),
        "build_1m_wall_s": statistics.median(wall for _, wall in builds),
    }


@contextmanager
def _merging(writer: SegmentsWriter) -> Iterator[None]:
    """A thread that merges what is due, as in an agent."""
    stop = threading.Event()

    def merge() -> None:
        while not stop.wait(0.02):
            while writer.merge():
                pass

    thread = threading.Thread(target=merge)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def _publications(writer: SegmentsWriter) -> tuple[list[float], list[float]]:
    """How long each took, and of the processor's time in its thread."""
    random = np.random.default_rng(6)
    milliseconds, processor = [], []
    begin = time.monotonic()
    for number in range(PUBLICATIONS):
        numbers = random.choice(ROWS, CHANGED, replace=False)
        started, processor_started = time.perf_counter(), time.thread_time()
        update(writer, numbers, ROWS + number * CHANGED)
        milliseconds.append((time.perf_counter() - started) * 1_000)
        processor.append((time.thread_time() - processor_started) * 1_000)
        time.sleep(max(0, begin + (number + 1) / PUBLICATIONS_A_SECOND - time.monotonic()))
    return milliseconds, processor


def _steady(writer: SegmentsWriter) -> tuple[float, int]:
    """The share of a core that the process takes, merges included, and the most segments that a look-up had to ask."""
    random = np.random.default_rng(7)
    rows = CHANGED // PER_SECOND
    # Made before: to think of rows is not the writer's work.
    changes = [
        changed(random.choice(ROWS, rows, replace=False, shuffle=False), ROWS + number * rows)
        for number in range(STEADY_S * PER_SECOND)
    ]
    segments = 0
    started, processor = time.monotonic(), time.process_time()
    for number, change in enumerate(changes):
        writer.publish(next_seq(writer), {"users": change})
        if number % (PER_SECOND // 5) == 0:
            segments = max(segments, writer.stats()["users"].segments)
        time.sleep(max(0, started + (number + 1) / PER_SECOND - time.monotonic()))
    return (time.process_time() - processor) / (time.monotonic() - started), segments


def _build(directory: Path) -> tuple[float, float]:
    """Processor and wall seconds from row versions, their values decoded on the way, to a base that readers see."""
    batches = [versions_of(keys_of(numbers), int(numbers[0]), values=values_of(numbers)) for numbers in pieces(ROWS)]
    writer = open_writer(directory, {"users": SPEC})
    wall, processor = time.perf_counter(), time.process_time()
    with building(writer, "users", ROWS) as base:
        for versions in batches:
            base.add(versions)
    return time.process_time() - processor, time.perf_counter() - wall
