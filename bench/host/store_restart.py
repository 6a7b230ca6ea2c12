"""A store of 1 M rows whose agent was killed with kill -9: from the next reader's request to ready again."""

import statistics
import tempfile
from pathlib import Path

from bench.harness import Figures, cpu_seconds, say
from bench.kit.agents import family, kill_agent, remove_agent, start_agent
from bench.kit.metadata import fill, pipeline_of, produce
from enrich.dev import temporary_stack

ROUNDS = 5
TOPIC = "users"
MISSED = 1_000
"""Updates that come while no agent lives."""


def run() -> Figures:
    with temporary_stack(quiet=True) as stack, tempfile.TemporaryDirectory(prefix="enrich-bench-") as name:
        fill(stack.bootstrap_servers, TOPIC)
        pipeline = pipeline_of(Path(name), stack.bootstrap_servers, TOPIC)
        try:
            pid = start_agent(pipeline).pid
            rounds = []
            for number in range(1, ROUNDS + 1):
                say(f"round {number}/{ROUNDS}")
                kill_agent(pid)
                produce(stack.bootstrap_servers, TOPIC, range(MISSED))
                start = start_agent(pipeline)
                pid = start.pid
                rounds.append({"ready_s": start.ready_s, "alive_s": start.alive_s, "cpu_s": cpu_seconds(family(pid))})
        finally:
            remove_agent(pipeline)
    return {name: statistics.median(figures[name] for figures in rounds) for name in rounds[0]}
