"""Look-ups in the past: four versions a key, as of random times and under a pin, in batches of 10,000, one core."""

import time
from functools import partial

import numpy as np
import pyarrow as pa

from bench.harness import Figures, interleaved, medians, say
from bench.segments.data import (
    BATCH,
    HISTORY,
    SELECTED,
    building,
    keys_of,
    open_writer,
    pieces,
    random_batches,
    rows_of,
    segments_directory,
    versions_of,
)
from stores.protocol import TableView
from stores.segments import SegmentsReader
from stores.table import TIMESTAMP

ROUNDS = 7
ROWS = 1_000_000
VERSIONS = 4
BATCHES = 20


def run() -> Figures:
    pa.set_cpu_count(1)
    with segments_directory() as directory:
        say(f"building {ROWS:,} keys with {VERSIONS} versions each")
        writer = open_writer(directory, {"users": HISTORY})
        with building(writer, "users", VERSIONS * ROWS, HISTORY) as base:
            for version in range(VERSIONS):
                for numbers in pieces(ROWS):
                    first = version * ROWS + int(numbers[0])
                    base.add(versions_of(keys_of(numbers), first, first), rows_of(numbers + version))
        view = SegmentsReader(directory, {"users": HISTORY}).snapshot().table("users")
        batches = random_batches(ROWS, BATCHES)
        random = np.random.default_rng(4)
        # From the first version's time on: every question has an answer.
        times = [pa.array(random.integers(ROWS, VERSIONS * ROWS, BATCH), TIMESTAMP) for _ in batches]
        pin = {0: VERSIONS * ROWS // 2}
        for options in ({"as_of": times[0]}, {"pin": pin}):
            if view.lookup(batches[0], SELECTED, **options).values.null_count:
                raise AssertionError("a key was not found")
        seconds = medians(
            interleaved(
                ROUNDS,
                {
                    "asof": partial(_ask_times, view, batches, times),
                    "pin": partial(_ask_pin, view, batches, pin),
                    "now": partial(_ask_pin, view, batches, None),
                },
            )
        )
    return {f"{name}_per_s": BATCHES * BATCH / value for name, value in seconds.items()}


def _ask_times(view: TableView, batches: list[pa.Array], times: list[pa.Array]) -> float:
    started = time.process_time()
    for batch, as_of in zip(batches, times, strict=True):
        view.lookup(batch, SELECTED, as_of=as_of)
    return time.process_time() - started


def _ask_pin(view: TableView, batches: list[pa.Array], pin: dict[int, int] | None) -> float:
    started = time.process_time()
    for batch in batches:
        view.lookup(batch, SELECTED, pin=pin)
    return time.process_time() - started
