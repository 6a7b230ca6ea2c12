"""A command of an administrator as benchmarks meet it: a process of its own, timed and watched from outside."""

import json
import subprocess
import sys
import time
from dataclasses import dataclass
from typing import Any

import psutil

from bench.harness import ended_children_cpu_seconds
from bench.kit.agents import private_mib

_LOOK_EVERY_S = 0.02


@dataclass(frozen=True)
class Ran:
    """How a command went."""

    s: float
    """From the start of its process to its end."""
    cpu_s: float
    peak_mib: float
    """Private memory."""
    told: dict[str, Any]
    """The last object that it printed."""


def run_command(*arguments: object) -> Ran:
    """Raises CalledProcessError when it fails."""
    command = [sys.executable, "-m", "enrich", *map(str, arguments), "--json"]
    before = ended_children_cpu_seconds()
    started = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    peak = 0.0
    while process.poll() is None:
        try:
            peak = max(peak, private_mib(process.pid))
        except psutil.NoSuchProcess:
            break
        time.sleep(_LOOK_EVERY_S)
    out, _ = process.communicate()
    seconds = time.perf_counter() - started
    if process.returncode != 0:
        raise subprocess.CalledProcessError(process.returncode, command, out)
    return Ran(seconds, ended_children_cpu_seconds() - before, peak, json.loads(out.splitlines()[-1]))
