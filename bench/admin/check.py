"""`enrich topics check` of a topic of 1 M records, from the start of the process to its end."""

import statistics

from bench.admin.commands import run_command
from bench.harness import Figures, say
from bench.kit.filled_table import filled_table
from bench.kit.metadata import ROWS

ROUNDS = 3
TOPIC = "users"


def run() -> Figures:
    with filled_table(TOPIC) as world:
        rounds = []
        for number in range(1, ROUNDS + 1):
            say(f"round {number}/{ROUNDS}")
            ran = run_command("topics", "check", TOPIC, "-c", world.file)
            if ran.told["records"] != ROWS or ran.told["keys"] != ROWS:
                raise AssertionError(f"the check saw {ran.told}")
            rounds.append({"s": ran.s, "cpu_s": ran.cpu_s, "peak_mib": ran.peak_mib})
    return {name: statistics.median(figures[name] for figures in rounds) for name in rounds[0]}
