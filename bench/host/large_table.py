"""Tables of 1 M, 4 M and 10 M rows, loaded one after the other: what grows with the rows, and how fast."""

import tempfile
from pathlib import Path

from bench.harness import Figures, cpu_seconds, say
from bench.kit.agents import MemoryWatch, family, remove_agent, start_agent, steady_mib
from bench.kit.metadata import fill, pipeline_of
from enrich.dev import temporary_stack

MILLIONS = (1, 4, 10)
_DEADLINE_S = 1_200


def run() -> Figures:
    figures: dict[str, float] = {}
    with temporary_stack(quiet=True) as stack:
        for millions in MILLIONS:
            say(f"{millions} M rows")
            topic = f"large-{millions}m"
            fill(stack.bootstrap_servers, topic, millions * 1_000_000)
            with tempfile.TemporaryDirectory(prefix="enrich-bench-") as folder:
                for name, value in _loaded(Path(folder), stack.bootstrap_servers, topic).items():
                    figures[f"{name}_{millions}m"] = value
    least, most = f"_{MILLIONS[0]}m", f"_{MILLIONS[-1]}m"
    more = MILLIONS[-1] - MILLIONS[0]
    for what in ("peak_mib", "steady_mib", "ready_s"):
        figures[f"{what}_per_million"] = (figures[what + most] - figures[what + least]) / more
    return figures


def _loaded(folder: Path, bootstrap_servers: str, topic: str) -> dict[str, float]:
    pipeline = pipeline_of(folder, bootstrap_servers, topic)
    watch = MemoryWatch(pipeline)
    try:
        with watch.watching():
            start = start_agent(pipeline, _DEADLINE_S)
            used = cpu_seconds(family(start.pid))
            steady = steady_mib(start.pid)
        on_disk = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) / 2**20
    finally:
        remove_agent(pipeline)
    return {
        "ready_s": start.ready_s,
        "cpu_s": used,
        "peak_mib": watch.peak_mib,
        "steady_mib": steady,
        "disk_mib": on_disk,
    }
