"""`python -m bench`: lists the benchmarks, runs one, or runs all and writes bench/RESULTS.md."""

import argparse
import json
import signal
import sys
from pathlib import Path

from bench.catalogue import BENCHMARKS
from bench.harness import Benchmark, Figures, machine, say

RESULTS = Path(__file__).parent / "RESULTS.md"


def main() -> int:
    # As Ctrl-C: what a benchmark started must not outlive it.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("name", nargs="?", choices=sorted(BENCHMARKS), metavar="NAME", help="one of --list")
    parser.add_argument("--json", action="store_true", help="print the result as one JSON object on the last line")
    parser.add_argument("--list", action="store_true", help="name all benchmarks and leave")
    parser.add_argument("--all", action="store_true", help=f"run all and write {RESULTS.parent.name}/{RESULTS.name}")
    options = parser.parse_args()
    if options.list:
        sys.stdout.writelines(f"{b.name:<20} {b.about}\n" for b in BENCHMARKS.values())
        return 0
    if options.all:
        return _run_all()
    if options.name is None:
        parser.error("name a benchmark, or --list, or --all")
    benchmark = BENCHMARKS[options.name]
    figures = _rounded(benchmark.run())
    if options.json:
        sys.stdout.write(json.dumps({"bench": benchmark.name, "figures": figures, "machine": machine()}) + "\n")
    else:
        for name, value in figures.items():
            sys.stdout.write(f"{name:<24} {value:>12g} {benchmark.verdict(name, value)}\n")
    return 0


def _run_all() -> int:
    described = machine()
    facts = ", ".join(f"{name} {value}" for name, value in described.items() if name != "time")
    lines = [
        "# Benchmark results",
        "",
        f"Written by `make bench` at {described['time']} on: {facts}.",
        "Medians of several rounds on a shared machine; compare figures of one run only.",
        "",
        "| benchmark | figure | value | bound |",
        "|---|---|---|---|",
    ]
    for benchmark in BENCHMARKS.values():
        say(f"== {benchmark.name}: {benchmark.about}")
        lines += _rows(benchmark, _rounded(benchmark.run()))
    RESULTS.write_text("\n".join(lines) + "\n", encoding="utf-8")
    sys.stdout.write(f"wrote {RESULTS.parent.name}/{RESULTS.name}\n")
    return 0


def _rows(benchmark: Benchmark, figures: Figures) -> list[str]:
    return [
        f"| {benchmark.name} | {name} | {value:g} | {benchmark.verdict(name, value)} |"
        for name, value in figures.items()
    ]


def _rounded(figures: Figures) -> dict[str, float]:
    return {name: float(f"{value:.4g}") for name, value in figures.items()}


if __name__ == "__main__":
    sys.exit(main())
