"""One agent with 200 tables of which 20 change all the time: how long a change takes until a reader in another process
answers with it, alone, and while one table is loaded anew, one is made again and one has lost its topic."""

import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from confluent_kafka.cimpl import NewTopic

from bench.harness import Figures, say
from bench.kit.agents import end_agent, start_agent
from bench.kit.metadata import PARTITIONS, fill, key_of, pipeline_of, row_of
from bench.kit.updates import KEYS, Updates, Watching
from enrich.config import Pipeline
from enrich.dev import temporary_stack
from enrich.host.ipc.requests import REBUILD, ask
from enrich.host.ipc.store_paths import paths_of
from enrich.host.reader.spawn import living_agent
from enrich.kafka import COMPACTED, Topics, new_admin_client, new_producer

TABLES, CHANGING = 200, 20
PER_SECOND = 10
"""Changes of each table that changes."""
ROUNDS = 3
SECONDS = 10
LOADED_ROWS = 1_000_000
_SETTLE_S, _DEADLINE_S, _LOOK_EVERY_S = 20, 120, 0.05
_LATEST_S = 10
"""The last changes are seen by then."""
_LATER = 1_000_000  # above the numbers of the first part


def run() -> Figures:
    rounds = []
    for number in range(1, ROUNDS + 1):
        say(f"round {number}/{ROUNDS}")
        with temporary_stack(quiet=True) as stack, tempfile.TemporaryDirectory(prefix="enrich-bench-") as folder:
            rounds.append(_round(Path(folder), stack.bootstrap_servers))
    return {name: statistics.median(figures[name] for figures in rounds) for name in rounds[0]}


def _round(folder: Path, bootstrap_servers: str) -> dict[str, float]:
    names = [f"busy-{number}" for number in range(TABLES)]
    changing, (made_again, lost) = names[:CHANGING], names[CHANGING : CHANGING + 2]
    admin = new_admin_client({"bootstrap.servers": bootstrap_servers})
    new = [NewTopic(name, num_partitions=PARTITIONS, config=dict(COMPACTED)) for name in names]
    for made in admin.create_topics(new).values():
        made.result()
    producer = new_producer({"bootstrap.servers": bootstrap_servers})
    for name in names:
        for number in range(KEYS if name in changing else 3):
            producer.produce(name, row_of(number), key_of(number))
    producer.flush()
    fill(bootstrap_servers, "loaded", LOADED_ROWS)
    pipeline = pipeline_of(folder, bootstrap_servers, *names, "loaded")
    start_agent(pipeline)
    try:
        time.sleep(_SETTLE_S)  # until segments are built
        quiet = _latencies(pipeline, bootstrap_servers, changing, first=KEYS)
        topics = Topics(admin)
        busy = _latencies(pipeline, bootstrap_servers, changing, first=_LATER, trouble=(topics, made_again, lost))
    finally:
        end_agent(pipeline)
    return {
        "p50_ms": statistics.median(quiet),
        "p95_ms": _p95(quiet),
        "p50_ms_busy": statistics.median(busy),
        "p95_ms_busy": _p95(busy),
        "max_ms_busy": max(busy),
        "updates_busy": len(busy),
        "busy_vs_quiet": _p95(busy) / _p95(quiet),
    }


def _latencies(
    pipeline: Pipeline,
    bootstrap_servers: str,
    changing: list[str],
    *,
    first: int,
    trouble: tuple[Topics, str, str] | None = None,
) -> list[float]:
    """Milliseconds from a change's sending to its being seen, for some seconds or until all that happens is over."""
    watched, *more = changing
    updates = Updates(bootstrap_servers, watched, first, more=more, per_second=PER_SECOND)
    with updates.flowing():
        watching = Watching(pipeline, watched, alone=True)
        updates.wait_until_under_way()
        begin = time.monotonic()
        if trouble is None:
            time.sleep(SECONDS)
        else:
            _happen(pipeline, *trouble)
        end = time.monotonic()
        time.sleep(_LATEST_S)
    seen = watching.seen()
    return [(seen[number] - sent) * 1000 for number, sent in updates.sent.items() if begin <= sent <= end]


def _happen(pipeline: Pipeline, topics: Topics, made_again: str, lost: str) -> None:
    """Returns when the table that is loaded and the one that is made again are ready."""
    paths = paths_of(pipeline)
    ask(paths.folder, "POST", REBUILD + "loaded")
    topics.delete(lost)
    before = topics.topic_id(made_again)
    topics.delete(made_again)
    _wait(lambda: not topics.exists(made_again))
    topics.create(made_again, partitions=PARTITIONS, config=COMPACTED)

    def is_over() -> bool:
        header = living_agent(paths)
        if header is None:
            return False
        made, loaded = header.tables[made_again], header.tables["loaded"]
        return made.topic_id != before and made.reason is None and loaded.reason is None

    _wait(is_over)


def _wait(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + _DEADLINE_S
    while not condition():
        if time.monotonic() > end:
            raise RuntimeError("what was to happen beside the changes did not end")
        time.sleep(_LOOK_EVERY_S)


def _p95(values: list[float]) -> float:
    return statistics.quantiles(values, n=20)[-1]
