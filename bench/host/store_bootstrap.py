"""A table of 1 M JSON rows from nothing to ready, beside a Kafka Streams application that restores the same topic.

Both are timed from the start of their process. Theirs keeps raw bytes; ours also decodes each row to its columns once,
because a record that cannot be decoded must be found before it hides the row that its key had.
"""

import json
import statistics
import subprocess
import sys

from bench.harness import Figures, cpu_seconds, say
from bench.java.kafka_streams import StreamsApp
from bench.kit.agents import MemoryWatch, family, remove_agent, start_agent, steady_mib
from bench.kit.filled_table import filled_table
from bench.kit.metadata import ROWS
from enrich.config import Pipeline, to_wire

ROUNDS = 3
TOPIC = "users"


def run() -> Figures:
    with filled_table(TOPIC) as world:
        theirs = StreamsApp.compiled(world.folder / "streams")
        rounds: list[dict[str, float]] = []
        for number in range(1, ROUNDS + 1):
            say(f"round {number}/{ROUNDS} agent")
            figures = _ours(world.pipeline)
            say(f"round {number}/{ROUNDS} Kafka Streams")
            streams = theirs.restore(world.bootstrap_servers, TOPIC, ROWS)
            rounds.append(
                {
                    **figures,
                    "streams_s": streams.seconds,
                    "streams_cpu_s": streams.cpu_seconds,
                    "streams_peak_rss_mib": streams.peak_rss_mib,
                    "vs_kafka_streams": streams.seconds / figures["ready_s"],
                }
            )
        say("memory")
        memory = _memory(world.pipeline)
    return {name: statistics.median(figures[name] for figures in rounds) for name in rounds[0]} | memory


def _ours(pipeline: Pipeline) -> dict[str, float]:
    remove_agent(pipeline)
    try:
        start = start_agent(pipeline)
        used = cpu_seconds(family(start.pid))
    finally:
        remove_agent(pipeline)
    return {
        "rows_per_s": ROWS / start.ready_s,
        "rows_per_s_once_alive": ROWS / (start.ready_s - start.alive_s),
        "ready_s": start.ready_s,
        "alive_s": start.alive_s,
        "cpu_s": used,
    }


def _memory(pipeline: Pipeline) -> dict[str, float]:
    """In a start of its own: to look at the memory of all its processes twenty times a second takes a good part of a
    core, and keeps each of them from getting more meanwhile."""
    remove_agent(pipeline)
    watch = MemoryWatch(pipeline)
    try:
        with watch.watching():
            start = start_agent(pipeline)
        return {
            "peak_mib": watch.peak_mib,
            "steady_mib": steady_mib(start.pid),
            "reader_mib": _reader_mib(pipeline),
        }
    finally:
        remove_agent(pipeline)


def _reader_mib(pipeline: Pipeline) -> float:
    """Of a process that holds nothing else: see bench/host/reader_memory.py."""
    command = [sys.executable, "-m", "bench.host.reader_memory"]
    answer = subprocess.run(command, input=to_wire(pipeline), text=True, stdout=subprocess.PIPE, check=True)
    return float(json.loads(answer.stdout)["reader_mib"])
