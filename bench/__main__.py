"""`python -m bench`: lists the benchmarks, runs one, or runs all and writes bench/RESULTS.md."""

import argparse
import json
import signal
import sys

from bench.catalogue import BENCHMARKS
from bench.harness import Figures, machine, say
from bench.results import RESULTS, record


def main() -> int:
    # As Ctrl-C: what a benchmark started must not outlive it.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("name", nargs="?", choices=sorted(BENCHMARKS), metavar="NAME", help="one of --list")
    parser.add_argument("--json", action="store_true", help="print the result as one JSON object on the last line")
    parser.add_argument("--record", action="store_true", help=f"put the result into bench/{RESULTS.name}")
    parser.add_argument("--list", action="store_true", help="name all benchmarks and leave")
    parser.add_argument("--all", action="store_true", help="run all and record each")
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
    if options.record:
        record(benchmark, figures)
    if options.json:
        sys.stdout.write(json.dumps({"bench": benchmark.name, "figures": figures, "machine": machine()}) + "\n")
    else:
        for name, value in figures.items():
            sys.stdout.write(f"{name:<24} {value:>12g} {benchmark.verdict(name, value)}\n")
    return 0


def _run_all() -> int:
    for benchmark in BENCHMARKS.values():
        say(f"== {benchmark.name}: {benchmark.about}")
        record(benchmark, _rounded(benchmark.run()))
    sys.stdout.write(f"wrote {RESULTS.parent.name}/{RESULTS.name}\n")
    return 0


def _rounded(figures: Figures) -> dict[str, float]:
    return {name: float(f"{value:.4g}") for name, value in figures.items()}


if __name__ == "__main__":
    sys.exit(main())
