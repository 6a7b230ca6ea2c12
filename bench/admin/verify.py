"""`enrich table verify` of a table of 1 M rows, from the start of the process to its end, its agent beside it."""

import statistics

from bench.admin.commands import run_command
from bench.harness import Figures, say
from bench.kit.agents import remove_agent, start_agent
from bench.kit.filled_table import filled_table
from bench.kit.metadata import ROWS

ROUNDS = 3
TOPIC = "users"


def run() -> Figures:
    with filled_table(TOPIC) as world:
        rounds = []
        try:
            start_agent(world.pipeline)
            for number in range(1, ROUNDS + 1):
                say(f"round {number}/{ROUNDS}")
                ran = run_command("table", "verify", TOPIC, "-c", world.file)
                if ran.told["keys"] != ROWS or ran.told["differences"]:
                    raise AssertionError(f"verify saw {ran.told}")
                rounds.append({"s": ran.s, "cpu_s": ran.cpu_s, "peak_mib": ran.peak_mib})
        finally:
            remove_agent(world.pipeline)
    return {name: statistics.median(figures[name] for figures in rounds) for name in rounds[0]}
