"""Updates of a table of a million rows, as many as a producer can send, until a reader has the last one; with and
without history. Then a steady load with a short history: how much larger its store gets.

`rows_per_s` is per second of the agent's processor time, as broker and producer share the machine; `rows_per_wall_s` is
what a user waits for.
"""

import multiprocessing
import os
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from multiprocessing.process import BaseProcess
from pathlib import Path

import pyarrow as pa

from bench.harness import Figures, cpu_seconds, say
from bench.kit.agents import family, remove_agent, wait_until_alive, wait_until_ready
from bench.kit.metadata import ROWS, fill, key_of, pipeline_of, row_of
from enrich.config import Pipeline
from enrich.dev import temporary_stack
from enrich.host.reader.reading import AgentReader
from enrich.kafka import new_producer

UPDATES = 300_000
STEADY_PER_S, STEADY_S, FIRST_S = 5_000, 300, 120
_STEP = 7_919
"""Updates go through the keys in steps of this prime: neighbours in the topic are no neighbours in the store."""
_DEADLINE_S = 300
_TOPIC = "users"


def run() -> Figures:
    with temporary_stack(quiet=True) as stack:
        fill(stack.bootstrap_servers, _TOPIC)
        plain = _burst(stack.bootstrap_servers, history="0", version=ROWS)
        kept = _burst(stack.bootstrap_servers, history="10m", version=2 * ROWS)
        growth = _growth(stack.bootstrap_servers, version=3 * ROWS)
    return {
        "rows_per_s": plain[0],
        "rows_per_wall_s": plain[1],
        "history_rows_per_s": kept[0],
        "history_rows_per_wall_s": kept[1],
        "history_growth": growth,
    }


def _burst(bootstrap_servers: str, *, history: str, version: int) -> tuple[float, float]:
    """Rows per second of the agent's processor time, and of the clock."""
    with tempfile.TemporaryDirectory(prefix="enrich-bench-") as folder:
        pipeline = pipeline_of(Path(folder), bootstrap_servers, _TOPIC, history=history)
        try:
            pid, reader = _following(pipeline)
            used, began = cpu_seconds(family(pid)), time.monotonic()
            last = UPDATES - 1
            with _producing(bootstrap_servers, version, UPDATES, None):
                while _seen(reader, last) != version + last:
                    if time.monotonic() > began + _DEADLINE_S:
                        raise RuntimeError("the reader did not see the last update")
                    time.sleep(0.01)
            seconds, used = time.monotonic() - began, cpu_seconds(family(pid)) - used
            reader.close()
        finally:
            remove_agent(pipeline)
    say(
        f"history {history}: {UPDATES:,} updates visible in {seconds:.1f} s, {used:.1f} s of the agent's processor time"
    )
    return UPDATES / used, UPDATES / seconds


def _growth(bootstrap_servers: str, *, version: int) -> float:
    """The store's size at the end, compared with that after the first minutes, in which the history fills."""
    with tempfile.TemporaryDirectory(prefix="enrich-bench-") as folder:
        pipeline = pipeline_of(Path(folder), bootstrap_servers, _TOPIC, history="30s")
        try:
            _, reader = _following(pipeline)
            reader.close()
            sizes: list[tuple[float, int]] = []
            began = time.monotonic()
            with _producing(bootstrap_servers, version, STEADY_PER_S * STEADY_S, STEADY_PER_S) as producing:
                while producing.is_alive():
                    time.sleep(1)
                    sizes.append((time.monotonic() - began, _size(pipeline.state_dir)))
        finally:
            remove_agent(pipeline)
    # Compactions make the size go up and down: the largest of a while counts.
    first = max(size for at, size in sizes if at < FIRST_S)
    last = max(size for at, size in sizes if at > STEADY_S - FIRST_S / 2)
    say(f"the store has at most {first / 2**20:.0f} MiB in the first {FIRST_S} s, {last / 2**20:.0f} in the last")
    return last / first


def _following(pipeline: Pipeline) -> tuple[int, AgentReader]:
    pid = wait_until_alive(pipeline)
    wait_until_ready(pipeline)
    reader = AgentReader(pipeline)
    reader.wait_until_ready(deadline_s=_DEADLINE_S)
    return pid, reader


def _seen(reader: AgentReader, number: int) -> int:
    key = pa.array([key_of(number * _STEP % ROWS)])
    found = reader.snapshot().table(_TOPIC).lookup(key, ["rps"]).values.field("rps").to_pylist()
    return int(found[0])


def _produce(bootstrap_servers: str, version: int, count: int, per_s: int | None) -> None:
    producer = new_producer({"bootstrap.servers": bootstrap_servers}, **{"linger.ms": 5})
    began = time.monotonic()
    for number in range(count):
        if per_s is not None and number % 100 == 0:
            time.sleep(max(0.0, began + number / per_s - time.monotonic()))
        while True:
            try:
                producer.produce(_TOPIC, row_of(number, version + number), key_of(number * _STEP % ROWS))
                break
            except BufferError:
                producer.poll(0.1)
        producer.poll(0)
    producer.flush()


def _size(folder: str) -> int:
    total = 0
    for path, _, names in os.walk(folder):
        for name in names:
            with suppress(FileNotFoundError):  # a compaction has removed it
                total += Path(path, name).stat().st_size
    return total


@contextmanager
def _producing(bootstrap_servers: str, version: int, count: int, per_s: int | None) -> Iterator[BaseProcess]:
    producing = multiprocessing.get_context("spawn").Process(
        target=_produce, args=[bootstrap_servers, version, count, per_s]
    )
    producing.start()
    try:
        yield producing
    finally:
        producing.kill()
        producing.join()
