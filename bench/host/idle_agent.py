"""What an agent costs that has nothing to do, by the number of its tables; and beside 200 tables, of which one changes,
what a publication costs the agent and a snapshot of that table its reader."""

import os
import statistics
import tempfile
import time
from contextlib import closing
from pathlib import Path

from confluent_kafka.cimpl import NewTopic

from bench.harness import Figures, cpu_seconds, say
from bench.kit.agents import end_agent, family, start_agent
from bench.kit.metadata import key_of, pipeline_of, produce, row_of
from enrich.config import Pipeline
from enrich.dev import temporary_stack
from enrich.host.ipc.store_paths import paths_of
from enrich.host.reader.reading import AgentReader
from enrich.host.reader.spawn import living_agent
from enrich.kafka import COMPACTED, new_admin_client, new_producer

TABLES = (3, 60, 200)
PARTITIONS = 12
ROUNDS = 3
SECONDS = 20
_SETTLE_S, _SETTLE_MOST = 10, 20
_CHANGES, _CHANGE_EVERY_S = 200, 0.1


def run() -> Figures:
    rounds = []
    with temporary_stack(quiet=True) as stack:
        _make_topics(stack.bootstrap_servers, max(TABLES))
        for number in range(1, ROUNDS + 1):
            figures: dict[str, float] = {}
            for tables in TABLES:
                say(f"round {number}/{ROUNDS}, {tables} tables")
                with tempfile.TemporaryDirectory(prefix="enrich-bench-") as name:
                    pipeline = pipeline_of(Path(name), stack.bootstrap_servers, *_names(tables))
                    pid = start_agent(pipeline).pid
                    _settle(pid)
                    idle = _share(pid, SECONDS)
                    figures |= {f"t{tables}": idle, f"t{tables}_behind_ms": _behind_ms(pipeline)}
                    if tables == max(TABLES):
                        figures |= _changing(pipeline, stack.bootstrap_servers, pid, idle)
                    end_agent(pipeline)
            rounds.append(figures)
    return {name: statistics.median(figures[name] for figures in rounds) for name in rounds[0]}


def _settle(pid: int) -> None:
    """Until its segments are built, which it does when tables are ready already: until it uses no less than before."""
    before = float("inf")
    for _ in range(_SETTLE_MOST):
        now = _share(pid, _SETTLE_S)
        if now > 0.8 * before:
            return
        before = now


def _share(pid: int, seconds: float) -> float:
    """Of a core, while nothing happens."""
    begin, used = time.monotonic(), cpu_seconds(family(pid))
    time.sleep(seconds)
    return (cpu_seconds(family(pid)) - used) / (time.monotonic() - begin)


def _behind_ms(pipeline: Pipeline) -> float:
    """How far complete_through of the table that is furthest behind is in the past."""
    behind = []
    for _ in range(20):
        time.sleep(0.05)
        header = living_agent(paths_of(pipeline))
        if header is not None:
            throughs = [state.complete_through or 0 for state in header.tables.values()]
            behind.append(time.time() * 1000 - min(throughs))
    return statistics.median(behind)


def _changing(pipeline: Pipeline, bootstrap_servers: str, pid: int, idle: float) -> Figures:
    """One row of one table changes ten times a second; a reader of this table takes a snapshot after each."""
    (changing,) = _names(1)
    with closing(AgentReader(pipeline, holder=os.getpid, tables=[changing])) as reader:
        reader.wait_until_ready(deadline_s=60)
        producer = new_producer({"bootstrap.servers": bootstrap_servers})
        before, used, begin = reader.header().counter, cpu_seconds(family(pid)), time.monotonic()
        taken = []
        for number in range(_CHANGES):
            producer.produce(changing, row_of(number), key_of(number % 10))
            producer.flush()
            time.sleep(_CHANGE_EVERY_S)
            began = time.thread_time()
            reader.snapshot()
            taken.append(time.thread_time() - began)
        spent = cpu_seconds(family(pid)) - used - idle * (time.monotonic() - begin)
        published = reader.header().counter - before
    return {"publish_ms": 1000 * spent / published, "snapshot_us": 1e6 * statistics.median(taken)}


def _make_topics(bootstrap_servers: str, count: int) -> None:
    admin = new_admin_client({"bootstrap.servers": bootstrap_servers})
    new = [
        NewTopic(name, num_partitions=PARTITIONS, replication_factor=1, config=dict(COMPACTED))
        for name in _names(count)
    ]
    for made in admin.create_topics(new).values():
        made.result()
    for name in _names(count):
        produce(bootstrap_servers, name, range(3))


def _names(count: int) -> list[str]:
    """Of topics, and of their tables."""
    return [f"idle-{number}" for number in range(count)]
