"""How long the embedded stack takes from nothing to ready, again with its data, and to stop; and what it weighs."""

import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from bench.harness import Figures, interleaved, medians
from enrich.dev import Stack

ROUNDS = 5


def run() -> Figures:
    with tempfile.TemporaryDirectory(prefix="enrich-bench-") as folder:
        stack = Stack(Path(folder) / "stack")
        memory: list[float] = []

        def first_up() -> float:
            stack.reset(yes=True)
            return _timed(stack.up)

        def down() -> float:
            memory.append(_resident_mib(stack))
            return _timed(stack.down)

        try:
            seconds = medians(
                interleaved(ROUNDS, {"ready_s": first_up, "down_s": down, "again_s": lambda: _timed(stack.up)})
            )
        finally:
            stack.reset(yes=True)
    return {**seconds, "resident_mib": sorted(memory)[len(memory) // 2]}


def _timed(call: Callable[[], object]) -> float:
    started = time.perf_counter()
    call()
    return time.perf_counter() - started


def _resident_mib(stack: Stack) -> float:
    return sum(server.memory or 0 for server in stack.status()) / 2**20
