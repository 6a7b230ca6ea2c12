"""bench/RESULTS.md: a section for each benchmark, with when and on what machine it ran last."""

import re
from pathlib import Path

from bench.catalogue import BENCHMARKS
from bench.harness import Benchmark, Figures, machine
from bench.stage.events import SCALE

RESULTS = Path(__file__).with_name("RESULTS.md")

_TOP = """# Benchmark results

Each section is of `python -m bench NAME --record`; `make bench` runs all. Medians of several rounds on a shared
machine: compare figures of one run only.
"""
_SECTION = re.compile(r"^## (\w+)\n", re.MULTILINE)


def record(benchmark: Benchmark, figures: Figures, file: Path = RESULTS) -> None:
    """Puts the figures into the file, in place of what this benchmark had there."""
    _, *parts = _SECTION.split(file.read_text(encoding="utf-8")) if file.exists() else ("",)
    sections = dict(zip(parts[::2], parts[1::2], strict=True))
    sections[benchmark.name] = _section(benchmark, figures)
    known = [f"## {name}\n{sections[name].rstrip()}\n" for name in BENCHMARKS if name in sections]
    file.write_text("\n".join([_TOP, *known]), encoding="utf-8")


def _section(benchmark: Benchmark, figures: Figures) -> str:
    facts = machine()
    if SCALE != 1 and benchmark.name.startswith("stage_"):
        facts["scale"] = SCALE
    described = ", ".join(f"{name} {value}" for name, value in facts.items() if name != "time")
    rows = [f"| {name} | {value:g} | {benchmark.verdict(name, value)} |" for name, value in figures.items()]
    return "\n".join(
        [
            "",
            f"{benchmark.about[0].upper()}{benchmark.about[1:]}.",
            "",
            f"At {facts['time']}: {described}.",
            "",
            "| figure | value | bound |",
            "|---|---|---|",
            *rows,
        ]
    )
