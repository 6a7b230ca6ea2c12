"""Long tests take turns: a run takes a sixth of those of each room, by its seed. Six seeds in a row take all.

Which are long is recorded, with the seconds of each, in `tests/long_tests.tsv`. A test that is not there runs always.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path

import pytest

RECORD = Path(__file__).parents[1] / "long_tests.tsv"
LONG_S = 3.0
TURNS = 6


class Recorder:
    """Of a whole run: what each test took, with what it needed."""

    def __init__(self) -> None:
        self._seconds: dict[str, float] = defaultdict(float)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._seconds[report.nodeid] += report.duration

    def pytest_sessionfinish(self) -> None:
        longest: dict[str, float] = {}
        for nodeid, seconds in self._seconds.items():
            name = _name(nodeid)
            longest[name] = max(seconds, longest.get(name, 0))
        lines = [f"{seconds:.0f}\t{name}\n" for name, seconds in sorted(longest.items()) if seconds >= LONG_S]
        RECORD.write_text("".join(lines), encoding="utf-8")


def recorded() -> dict[str, int]:
    """The seconds of each long test, whatever its parameters."""
    lines = RECORD.read_text(encoding="utf-8").splitlines()
    return {name: int(seconds) for seconds, name in (line.split("\t") for line in lines)}


def left_to_others(nodeids: Iterable[str], seconds: Mapping[str, int], seed: int) -> set[str]:
    """Those of these tests that are the turn of runs with other seeds."""
    rooms: dict[Path, list[str]] = defaultdict(list)
    for nodeid in nodeids:
        if _name(nodeid) in seconds:
            rooms[Path(nodeid.partition("::")[0]).parent].append(nodeid)
    left: set[str] = set()
    for number, room in enumerate(sorted(rooms)):
        shares = _shares({nodeid: seconds[_name(nodeid)] for nodeid in rooms[room]})
        # Not the first share of all rooms at once: their sizes differ, and runs shall take about as long as each other.
        chosen = (seed + number) % len(shares)
        left.update(nodeid for share in range(len(shares)) if share != chosen for nodeid in shares[share])
    return left


def _shares(seconds: Mapping[str, int]) -> list[list[str]]:
    """At most so many as there are turns, none of them empty, of about the same time each."""
    shares: list[list[str]] = [[] for _ in range(min(TURNS, len(seconds)))]
    times = [0] * len(shares)
    for nodeid in sorted(seconds, key=lambda nodeid: (-seconds[nodeid], nodeid)):
        lightest = times.index(min(times))
        shares[lightest].append(nodeid)
        times[lightest] += seconds[nodeid]
    return shares


def _name(nodeid: str) -> str:
    return nodeid.partition("[")[0]
