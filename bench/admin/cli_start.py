"""How long `enrich --help` takes, beside an interpreter that does nothing and one that imports the CLI library."""

import sys

from bench.harness import Figures, interleaved, medians, wall_seconds

ROUNDS = 15


def run() -> Figures:
    python = sys.executable
    seconds = medians(
        interleaved(
            ROUNDS,
            {
                "enrich": lambda: wall_seconds([python, "-m", "enrich", "--help"]),
                "python": lambda: wall_seconds([python, "-c", "pass"]),
                "typer": lambda: wall_seconds([python, "-c", "import typer, rich.console"]),
            },
        )
    )
    return {
        "ms": seconds["enrich"] * 1000,
        "python_ms": seconds["python"] * 1000,
        "typer_import_ms": seconds["typer"] * 1000,
    }
