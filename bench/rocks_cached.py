"""Look-ups on the RocksDB path, bare and with a cache in front: hot keys, skewed keys, and all keys alike.

Processor time: RocksDB and Arrow use threads, and what a look-up costs a stage is cores. Each contender
has a reader of its own over one table of 1 M rows; both see the same batches, and none of them twice.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from functools import partial
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pyarrow as pa

from bench.harness import Figures, interleaved, medians
from enrich.codecs import JsonDecoder
from stores.clock import SystemClock
from stores.protocol import TableSpec, TableUpdate, TableView
from stores.rocks import CachedReader, RocksReader, RocksStore
from stores.table import ROW_VERSIONS

ROWS = 1_000_000
KEPT = 50_000
HOT = 20_000
BATCH = 1_000
BATCHES = 150
ROUNDS = 5
WARM_UP = 300
PUBLICATIONS = 300

Draw = Callable[[np.random.Generator], np.ndarray]

COLUMNS = pa.schema([pa.field("plan", pa.string()), pa.field("rps", pa.int32()), pa.field("region", pa.string())])
SPECS = {"users": TableSpec(COLUMNS, JsonDecoder(COLUMNS))}


def run() -> Figures:
    with TemporaryDirectory() as directory, ExitStack() as held:
        path = Path(directory) / "store"
        publish_ms = _filled(path)
        kinds: dict[str, Draw] = {
            "hot": lambda random: random.integers(0, HOT, BATCH),
            "skewed": lambda random: (random.zipf(1.2, BATCH) - 1) % ROWS,
            "uniform": lambda random: random.integers(0, ROWS, BATCH),
        }
        contenders: dict[str, Callable[[], float]] = {}
        for kind, draw in kinds.items():
            plain = held.enter_context(closing(RocksReader(path, SPECS)))
            cached = held.enter_context(closing(CachedReader(RocksReader(path, SPECS), most=KEPT)))
            for name, view in (
                ("plain", plain.snapshot().table("users")),
                ("cached", cached.snapshot().table("users")),
            ):
                source = _batches(draw)
                _us_a_key(view, source, WARM_UP)
                contenders[f"{kind}_{name}_us"] = partial(_us_a_key, view, source, BATCHES)
        figures = medians(interleaved(ROUNDS, contenders))
    gains = {f"{kind}_ratio": figures[f"{kind}_plain_us"] / figures[f"{kind}_cached_us"] for kind in kinds}
    return {**gains, **figures, "publish_20_ms": publish_ms}


def _filled(path: Path) -> float:
    """Makes the store. Returns what a publication of 20 rows costs, the change feed included."""
    with closing(RocksStore(path, SPECS, SystemClock())) as store:
        load = store.bulk("users")
        for start in range(0, ROWS, 50_000):
            load.add(_versions(np.arange(start, start + 50_000), start))
        load.finish({0: ROWS})
        costs = []
        for number in range(PUBLICATIONS):
            offset = ROWS + 20 * number
            update = TableUpdate(_versions(np.arange(20) * 49_999 + number, offset), {0: offset + 20})
            started = time.process_time()
            store.publish({"users": update})
            costs.append(time.process_time() - started)
        return float(np.median(costs)) * 1000


def _versions(numbers: np.ndarray, offset: int) -> pa.RecordBatch:
    count = len(numbers)
    values = [
        b'{"plan":"plan-%d","rps":%d,"region":"eu","pad":"%s"}' % (n % 7, n % 1000, b"x" * 50) for n in numbers.tolist()
    ]
    columns = [
        _keys(numbers),
        pa.array(np.zeros(count, np.int32)),
        pa.array(np.arange(offset, offset + count)),
        pa.array(np.full(count, 5)),
        pa.array(values, pa.binary()),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=ROW_VERSIONS)


def _keys(numbers: np.ndarray) -> pa.BinaryArray:
    return pa.array([b"user-%08d" % number for number in numbers.tolist()], pa.binary())


def _batches(draw: Draw) -> Iterator[pa.BinaryArray]:
    random = np.random.default_rng(1)
    while True:
        yield _keys(draw(random))


def _us_a_key(view: TableView, source: Iterator[pa.BinaryArray], count: int) -> float:
    batches = list(islice(source, count))
    started = time.process_time()
    for batch in batches:
        view.lookup(batch, ["plan", "rps"])
    return (time.process_time() - started) / (len(batches) * BATCH) * 1e6
