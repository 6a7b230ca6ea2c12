"""What ten readers of one table take beside the libraries, and what the process takes that builds it.

python -m bench.segments.memory read DIRECTORY     a reader: prints what it takes, once asked, until it is told to end
python -m bench.segments.memory build DIRECTORY    builds the table and prints what that took at most
"""

import json
import os
import subprocess
import sys
import threading
from pathlib import Path

import pyarrow as pa

from bench.harness import Figures, say
from bench.kit.agents import private_mib
from bench.segments.data import SELECTED, SPEC, fill, open_writer, random_batches, segments_directory
from stores.segments import SegmentsReader

ROWS = 1_000_000
READERS = 10
BATCHES = 30


def run() -> Figures:
    with segments_directory() as directory:
        building = json.loads(subprocess.run(_command("build", directory), check=True, capture_output=True).stdout)
        readers = [
            subprocess.Popen(_command("read", directory), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
            for _ in range(READERS)
        ]
        try:
            # All of them have read before the first one measures: pages that several have mapped belong to none.
            for reader in readers:
                _answer(reader)
            private = [_ask(reader) for reader in readers]
        finally:
            for reader in readers:
                reader.communicate()
    say(f"each reader: {', '.join(f'{mib:.1f}' for mib in private)} MiB")
    return {"readers_private_mib": sum(private), **building}


def _command(what: str, directory: Path) -> list[str]:
    return [sys.executable, "-m", "bench.segments.memory", what, str(directory)]


def _ask(reader: "subprocess.Popen[str]") -> float:
    assert reader.stdin is not None  # noqa: S101 - a pipe was asked for
    reader.stdin.write("measure\n")
    reader.stdin.flush()
    return _answer(reader)


def _answer(reader: "subprocess.Popen[str]") -> float:
    assert reader.stdout is not None  # noqa: S101 - a pipe was asked for
    return float(reader.stdout.readline())


def read(directory: Path) -> None:
    batches = random_batches(ROWS, BATCHES)
    before = private_mib(os.getpid())
    view = SegmentsReader(directory, {"users": SPEC}).snapshot().table("users")
    for batch in batches:
        if view.lookup(batch, SELECTED).values.null_count:
            raise SystemExit("a key was not found")
    sys.stdout.write("0\n")
    sys.stdout.flush()
    for _ in sys.stdin:
        sys.stdout.write(f"{private_mib(os.getpid()) - before}\n")
        sys.stdout.flush()


def build(directory: Path) -> None:
    warm = open_writer(directory / "warm", {"users": SPEC})
    fill(warm, "users", 1_000)
    most, stop = [0.0], threading.Event()

    def watch() -> None:
        while not stop.wait(0.01):
            most[0] = max(most[0], _anonymous_mib())

    before = _anonymous_mib()
    watching = threading.Thread(target=watch)
    watching.start()
    writer = open_writer(directory, {"users": SPEC})
    fill(writer, "users", ROWS)
    stop.set()
    watching.join()
    figures = {"build_private_mib": most[0] - before, "table_mib": writer.stats()["users"].bytes / 2**20}
    sys.stdout.write(json.dumps(figures) + "\n")


def _anonymous_mib() -> float:
    """Memory that only this process has and that no file stands for."""
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return next(int(line.split()[1]) for line in status.splitlines() if line.startswith("RssAnon")) / 1024


if __name__ == "__main__":
    pa.set_cpu_count(1)
    {"read": read, "build": build}[sys.argv[1]](Path(sys.argv[2]))
