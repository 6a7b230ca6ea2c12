"""The peer of `store_bootstrap`: a real Kafka Streams application that restores a topic into its RocksDB.

Its archives are locked in bench/jars.lock, apart from the product's: `python -m bench.kafka_streams` locks them anew.
"""

import shutil
import subprocess
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from bench.harness import cpu_seconds
from enrich.dev.java import find_java
from enrich.jars import JarCache, read_lock
from enrich.jars.cache import cache_folder
from enrich.jars.lock import write_lock
from enrich.jars.relock import resolve

_SET = "streams"
_COORDINATES = ("org.apache.kafka:kafka-streams:4.3.1", "org.slf4j:slf4j-nop:1.7.36")
_LOCK = Path(__file__).with_name("jars.lock")
_SOURCE = Path(__file__).with_name("streams") / "RestoreGlobalTable.java"


@dataclass(frozen=True)
class Restored:
    """From the start of the process to its state RUNNING."""

    seconds: float
    cpu_seconds: float
    peak_rss_mib: float


@dataclass(frozen=True)
class StreamsApp:
    """The compiled application."""

    java: Path
    class_path: str
    folder: Path

    @classmethod
    def compiled(cls, folder: Path) -> "StreamsApp":
        java = find_java()
        archives = [str(path) for path in JarCache(cache_folder(), read_lock(_LOCK)).paths(_SET)]
        class_path = ":".join([*archives, str(folder)])
        compiler = [str(java), "-m", "jdk.compiler/com.sun.tools.javac.Main"]
        subprocess.run([*compiler, "-cp", class_path, "-d", str(folder), str(_SOURCE)], check=True)
        return cls(java, class_path, folder)

    def restore(self, bootstrap_servers: str, topic: str, rows: int) -> Restored:
        """Raises RuntimeError when it ends early or restored another number of rows."""
        state = self.folder / "state"
        command = [str(self.java), "-cp", self.class_path, _SOURCE.stem, bootstrap_servers, topic, str(state)]
        started = time.perf_counter()
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
            said = "" if process.stdout is None else process.stdout.readline().strip()
            seconds = time.perf_counter() - started
            if said != "running":
                raise RuntimeError(f"Kafka Streams ended before it ran: {said!r}")
            restored = Restored(seconds, cpu_seconds([process.pid]), _peak_rss_mib(process.pid))
            answer, _ = process.communicate("\n", timeout=60)
        shutil.rmtree(state, ignore_errors=True)
        if answer.strip() != str(rows):
            raise RuntimeError(f"Kafka Streams restored {answer.strip()!r} rows instead of {rows}")
        return restored


def _peak_rss_mib(pid: int) -> float:
    lines = Path(f"/proc/{pid}/status").read_text(encoding="utf-8").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) / 1024


def main() -> None:
    cache_folder().mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="relock-", dir=cache_folder()) as folder:
        artifacts = resolve(_SET, _COORDINATES, Path(folder))
    write_lock(artifacts, _LOCK, command="python -m bench.kafka_streams", source="bench/kafka_streams.py")


if __name__ == "__main__":
    main()
