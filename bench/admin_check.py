"""`enrich topics check` of a topic of 1 M records, from the start of the process to its end."""

import statistics
import tempfile
from pathlib import Path

from bench.admin_commands import run_command
from bench.harness import Figures, say
from bench.metadata import ROWS, fill, pipeline_of
from enrich.dev import temporary_stack

ROUNDS = 3
TOPIC = "users"


def run() -> Figures:
    with temporary_stack(quiet=True) as stack, tempfile.TemporaryDirectory(prefix="enrich-bench-") as name:
        folder = Path(name)
        fill(stack.bootstrap_servers, TOPIC)
        pipeline_of(folder, stack.bootstrap_servers, TOPIC)
        file = folder / "pipeline.yaml"
        rounds = []
        for number in range(1, ROUNDS + 1):
            say(f"round {number}/{ROUNDS}")
            ran = run_command("topics", "check", TOPIC, "-c", file)
            if ran.told["records"] != ROWS or ran.told["keys"] != ROWS:
                raise AssertionError(f"the check saw {ran.told}")
            rounds.append({"s": ran.s, "cpu_s": ran.cpu_s, "peak_mib": ran.peak_mib})
    return {name: statistics.median(figures[name] for figures in rounds) for name in rounds[0]}
