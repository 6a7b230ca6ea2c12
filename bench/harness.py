"""What every benchmark uses: rounds, medians, the processor time of processes, and a description of the machine."""

import os
import platform
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

import psutil

Figures = Mapping[str, float]


@dataclass(frozen=True)
class Benchmark:
    """What can be measured, and the bounds that an idle machine of two cores should keep."""

    name: str
    about: str
    run: Callable[[], Figures]
    bounds: Mapping[str, tuple[str, float]] = field(default_factory=dict)
    """Figure -> ("<" or ">=", bound)."""

    def verdict(self, figure: str, value: float) -> str:
        if figure not in self.bounds:
            return ""
        relation, bound = self.bounds[figure]
        holds = value < bound if relation == "<" else value >= bound
        return f"{relation} {bound:g} {'ok' if holds else 'MISSED'}"


def interleaved(rounds: int, contenders: Mapping[str, Callable[[], float]]) -> dict[str, list[float]]:
    """Runs every contender once a round, in turn, after a round that warms up and does not count."""
    results: dict[str, list[float]] = {name: [] for name in contenders}
    for number in range(rounds + 1):
        for name, contender in contenders.items():
            say(f"round {number}/{rounds} {name}")
            result = contender()
            if number > 0:
                results[name].append(result)
    return results


def medians(results: Mapping[str, Sequence[float]]) -> dict[str, float]:
    return {name: statistics.median(values) for name, values in results.items()}


def wall_seconds(command: Sequence[str]) -> float:
    """How long a program takes from start to end. Raises CalledProcessError when it fails."""
    started = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - started


def cpu_seconds(pids: Iterable[int]) -> float:
    """Processor time that running processes have used so far, their ended children included."""
    times = [psutil.Process(pid).cpu_times() for pid in pids]
    return sum(t.user + t.system + t.children_user + t.children_system for t in times)


def peak_mib(pid: int) -> float:
    """The most memory that a process has had so far."""
    lines = Path(f"/proc/{pid}/status").read_text(encoding="utf-8").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) / 1024


def family_cpu_seconds(pid: int) -> float:
    """Of a process and all of its descendants. Raises NoSuchProcess when it has ended itself."""
    process = psutil.Process(pid)
    while True:
        try:
            return cpu_seconds([pid, *(child.pid for child in process.children(recursive=True))])
        except psutil.NoSuchProcess:
            if not process.is_running():
                raise
            # A child ended meanwhile: its parent has its time by now.


def ended_children_cpu_seconds() -> float:
    """Processor time of all child processes of this one that have ended and were waited for."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def machine() -> dict[str, object]:
    """Enough to judge a figure by, and nothing that names the host."""
    return {
        "cores": os.cpu_count(),
        "memory_gib": round(psutil.virtual_memory().total / 2**30, 1),
        "processor": _processor(),
        "system": f"{platform.system()} {platform.release().split('-')[0]}",
        "python": platform.python_version(),
        "load_1m": round(os.getloadavg()[0], 2),
        "time": datetime.now(UTC).isoformat(timespec="seconds"),
    }


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.machine()
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), platform.machine())


def say(text: str) -> None:
    """Progress, for people: stdout is for the result."""
    sys.stderr.write(f"{text}\n")
