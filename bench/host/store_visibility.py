"""How long an update takes from its producer until a reader in another process answers with it, at 1,000 updates/s:
alone, and while the same agent loads another table of 1 M rows."""

import statistics
import tempfile
import time
from pathlib import Path

from bench.harness import Figures, cpu_seconds, say
from bench.kit.agents import end_agent, family, remove_agent, wait_until_alive, wait_until_ready
from bench.kit.metadata import fill, pipeline_of
from bench.kit.updates import KEYS, Updates, Watching
from enrich.config import Pipeline
from enrich.dev import temporary_stack

ROUNDS = 3
SECONDS = 5
SETTLE_S = 1
KEPT_ROWS = 10_000
_LATER = 1_000_000  # numbers above those of the first part, and of the same keys


def run() -> Figures:
    rounds = []
    with temporary_stack(quiet=True) as stack:
        for number in range(1, ROUNDS + 1):
            say(f"round {number}/{ROUNDS}")
            with tempfile.TemporaryDirectory(prefix="enrich-bench-") as name:
                rounds.append(_round(Path(name), stack.bootstrap_servers, f"kept-{number}", f"loaded-{number}"))
    return {name: statistics.median(figures[name] for figures in rounds) for name in rounds[0]}


def _round(folder: Path, bootstrap_servers: str, kept: str, loaded: str) -> dict[str, float]:
    pipeline = pipeline_of(folder, bootstrap_servers, kept, loaded)
    try:
        fill(bootstrap_servers, kept, KEPT_ROWS)
        # The other topic is missing still, so its table waits and only this one is followed.
        pid = wait_until_alive(pipeline)
        wait_until_ready(pipeline, kept)
        used = cpu_seconds(family(pid))
        alone = _latencies(pipeline, bootstrap_servers, kept, first=KEYS)
        used = cpu_seconds(family(pid)) - used
        # The agent must not see this topic before it is full, or it would follow it instead of loading it.
        end_agent(pipeline)
        fill(bootstrap_servers, loaded)
        wait_until_alive(pipeline)
        wait_until_ready(pipeline, kept)
        during = _latencies(pipeline, bootstrap_servers, kept, first=_LATER, until_ready=loaded)
    finally:
        remove_agent(pipeline)
    return {
        "p50_ms": statistics.median(alone),
        "p95_ms": _p95(alone),
        "p50_ms_during_load": statistics.median(during),
        "p95_ms_during_load": _p95(during),
        "max_ms_during_load": max(during),
        "updates_during_load": len(during),
        "cpu_ms_per_1000_updates": used / len(alone) * 1e6,
    }


def _latencies(
    pipeline: Pipeline, bootstrap_servers: str, table: str, *, first: int, until_ready: str | None = None
) -> list[float]:
    """Milliseconds from an update's sending to its being seen, for some seconds or while another table loads."""
    updates = Updates(bootstrap_servers, table, first)
    with updates.flowing():
        watching = Watching(pipeline, table)
        updates.wait_until_under_way()
        begin = time.monotonic()
        if until_ready is None:
            time.sleep(SECONDS)
        else:
            wait_until_ready(pipeline, until_ready)
        end = time.monotonic()
        time.sleep(SETTLE_S)
    seen = watching.seen()
    return [(seen[number] - sent) * 1000 for number, sent in updates.sent.items() if begin <= sent <= end]


def _p95(values: list[float]) -> float:
    return statistics.quantiles(values, n=20)[-1]
