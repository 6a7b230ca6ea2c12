"""A table of 1 M rows: exported by a reader, verified against its topic, and a cold host that starts from the snapshot
instead of the whole topic. What each takes of the processor and of memory, and how long."""

import json
import resource
import statistics
import subprocess
import sys
import time
from pathlib import Path

from bench.harness import Figures, cpu_seconds, say
from bench.kit.agents import MemoryWatch, family, remove_agent, start_agent
from bench.kit.filled_table import filled_table
from bench.kit.metadata import ROWS
from enrich.config import Pipeline

ROUNDS = 3
TOPIC = "users"


def run() -> Figures:
    with filled_table(TOPIC) as world:
        pipeline, file, folder = world.pipeline, world.file, world.folder
        helped = pipeline.model_copy(update={"snapshots": _snapshots(folder / "snapshots")})
        rounds = []
        try:
            for number in range(1, ROUNDS + 1):
                say(f"round {number}/{ROUNDS}")
                figures = _cold(pipeline, "topic")
                figures |= _command("export", file, "--to", str(folder / "snapshots"), "--keep", "1")
                figures |= _command("verify", file)
                figures |= _cold(helped, "snapshot")
                rounds.append({**figures, "vs_topic": figures["topic_ready_s"] / figures["snapshot_ready_s"]})
        finally:
            remove_agent(pipeline)
    return {name: statistics.median(figures[name] for figures in rounds) for name in rounds[0]}


def _snapshots(path: Path) -> object:
    from enrich.config.sections.tables.snapshots import Snapshots

    return Snapshots(path=str(path))


def _cold(pipeline: Pipeline, what: str) -> dict[str, float]:
    """From nothing to a ready table."""
    remove_agent(pipeline)
    watch = MemoryWatch(pipeline)
    with watch.watching():
        start = start_agent(pipeline)
    return {
        f"{what}_ready_s": start.ready_s,
        f"{what}_rows_per_s_once_alive": ROWS / (start.ready_s - start.alive_s),
        f"{what}_cpu_s": cpu_seconds(family(start.pid)),
        f"{what}_peak_mib": watch.peak_mib,
    }


def _command(verb: str, file: Path, *arguments: str) -> dict[str, float]:
    """`enrich table VERB`, beside the agent that is there already."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    started = time.perf_counter()
    command = [sys.executable, "-m", "enrich", "table", verb, TOPIC, "-c", str(file), "--json", *arguments]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    seconds = time.perf_counter() - started
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    figures = {
        f"{verb}_rows_per_s": ROWS / seconds,
        f"{verb}_cpu_s": used.ru_utime + used.ru_stime - before.ru_utime - before.ru_stime,
    }
    told = json.loads(done.stdout.splitlines()[-1])
    return {**figures, "snapshot_mib": told["bytes"] / 2**20} if verb == "export" else figures
