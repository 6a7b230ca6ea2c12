"""`enrich table verify` of a table of 1 M rows, from the start of the process to its end, its agent beside it."""

import statistics
import tempfile
from pathlib import Path

from bench.admin_commands import run_command
from bench.agents import remove_agent, start_agent
from bench.harness import Figures, say
from bench.metadata import ROWS, fill, pipeline_of
from enrich.dev import temporary_stack

ROUNDS = 3
TOPIC = "users"


def run() -> Figures:
    with temporary_stack(quiet=True) as stack, tempfile.TemporaryDirectory(prefix="enrich-bench-") as name:
        folder = Path(name)
        fill(stack.bootstrap_servers, TOPIC)
        pipeline = pipeline_of(folder, stack.bootstrap_servers, TOPIC)
        rounds = []
        try:
            start_agent(pipeline)
            for number in range(1, ROUNDS + 1):
                say(f"round {number}/{ROUNDS}")
                ran = run_command("table", "verify", TOPIC, "-c", folder / "pipeline.yaml")
                if ran.told["keys"] != ROWS or ran.told["differences"]:
                    raise AssertionError(f"verify saw {ran.told}")
                rounds.append({"s": ran.s, "cpu_s": ran.cpu_s, "peak_mib": ran.peak_mib})
        finally:
            remove_agent(pipeline)
    return {name: statistics.median(figures[name] for figures in rounds) for name in rounds[0]}
