"""Look-ups in segments: three typed columns with status and position, batches of 10,000, one core.

Rates are by processor time. Every contender asks for the same number of keys in a round, and each round asks all.
"""

import statistics
import time
from collections.abc import Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from bench.harness import Figures, interleaved, medians, say
from bench.segments.data import (
    BATCH,
    SELECTED,
    SPEC,
    fill,
    keys_of,
    open_writer,
    pieces,
    random_batches,
    segments_directory,
    update,
    values_of,
    versions_of,
)
from stores.clock import SystemClock
from stores.protocol import TableView
from stores.rocks import RocksReader, RocksStore
from stores.segments import SegmentsReader
from stores.table import Status

ROUNDS = 7
ROWS = 1_000_000
MANY_ROWS = 10_000_000
BATCHES = 20
ROCKS_BATCHES = 2
DELTAS = 6
CHANGED = 1_000


def run() -> Figures:
    pa.set_cpu_count(1)
    with ExitStack() as held:
        directory = held.enter_context(segments_directory())
        plain = _one_table(directory / "plain", ROWS)
        changed = _with_deltas(directory / "deltas")
        many = _one_table(directory / "many", MANY_ROWS)
        three = _three_tables(directory / "three")
        rocks = _rocks(directory / "rocks", held)
        uniform = random_batches(ROWS, BATCHES)
        skewed = _skewed(BATCHES)
        missing = [pc.binary_join_element_wise(batch, "x", "") for batch in uniform]
        everywhere = random_batches(MANY_ROWS, BATCHES)
        for view, batches in (
            (plain, uniform),
            (plain, skewed),
            (changed, uniform),
            (many, everywhere),
            (rocks, uniform),
        ):
            _assert_found(view, batches[0], Status.HIT)
        _assert_found(plain, missing[0], Status.MISS)
        rounds = interleaved(
            ROUNDS,
            {
                "uniform": partial(_ask, [plain], uniform),
                "zipf": partial(_ask, [plain], skewed),
                "miss": partial(_ask, [plain], missing),
                "deltas": partial(_ask, [changed], uniform),
                "keys10m": partial(_ask, [many], everywhere),
                "one_of_three": partial(_ask, three[:1], uniform),
                "three_tables": partial(_ask, three, uniform),
                "rocks": partial(_ask, [rocks], uniform[:ROCKS_BATCHES]),
            },
        )
        seconds = medians(rounds)
    rate = {name: BATCHES * BATCH / value for name, value in seconds.items()}
    rate["rocks"] = ROCKS_BATCHES * BATCH / seconds["rocks"]
    return {
        "uniform_per_s": rate["uniform"],
        "vs_rocks": rate["uniform"] / rate["rocks"],
        "keys10m_per_s": rate["keys10m"],
        "zipf_vs_uniform": rate["zipf"] / rate["uniform"],
        "miss_vs_hit": rate["miss"] / rate["uniform"],
        "deltas_vs_none": rate["deltas"] / rate["uniform"],
        # Of each round by itself: the two stand beside each other in it.
        "three_tables_vs_one": statistics.median(
            three / one for three, one in zip(rounds["three_tables"], rounds["one_of_three"], strict=True)
        ),
        "rocks_per_s": rate["rocks"],
        "zipf_per_s": rate["zipf"],
        "miss_per_s": rate["miss"],
    }


def _one_table(directory: Path, rows: int) -> TableView:
    say(f"building {rows:,} rows")
    writer = open_writer(directory, {"users": SPEC})
    fill(writer, "users", rows)
    return SegmentsReader(directory, {"users": SPEC}).snapshot().table("users")


def _with_deltas(directory: Path) -> TableView:
    writer = open_writer(directory, {"users": SPEC})
    fill(writer, "users", ROWS)
    random = np.random.default_rng(2)
    for number in range(DELTAS):
        update(writer, random.choice(ROWS, CHANGED, replace=False), ROWS + number * CHANGED)
    return SegmentsReader(directory, {"users": SPEC}).snapshot().table("users")


def _three_tables(directory: Path) -> list[TableView]:
    specs = dict.fromkeys(("one", "two", "three"), SPEC)
    writer = open_writer(directory, specs)
    for name in specs:
        fill(writer, name, ROWS)
    snapshot = SegmentsReader(directory, specs).snapshot()
    return [snapshot.table(name) for name in specs]


def _rocks(directory: Path, held: ExitStack) -> TableView:
    say("loading RocksDB")
    store = RocksStore(directory, {"users": SPEC}, SystemClock())
    held.callback(store.close)
    load = store.bulk("users")
    for numbers in pieces(ROWS):
        load.add(versions_of(keys_of(numbers), int(numbers[0]), values=values_of(numbers)))
    load.finish({0: ROWS})
    reader = RocksReader(directory, {"users": SPEC})
    held.callback(reader.close)
    return reader.snapshot().table("users")


def _skewed(batches: int) -> list[pa.StringArray]:
    random = np.random.default_rng(3)
    return [keys_of(np.minimum(random.zipf(1.2, BATCH), ROWS) - 1) for _ in range(batches)]


def _assert_found(view: TableView, batch: pa.Array, status: Status) -> None:
    found = view.lookup(batch, SELECTED)
    if pc.unique(found.status).to_pylist() != [status] or found.values.null_count != (
        0 if status is Status.HIT else BATCH
    ):
        raise AssertionError(f"expected {status.name} for every key")


def _ask(views: Sequence[TableView], batches: Sequence[pa.Array]) -> float:
    """Processor seconds; each batch is asked of all views before the next one is."""
    started = time.process_time()
    for batch in batches:
        for view in views:
            view.lookup(batch, SELECTED)
    return time.process_time() - started
