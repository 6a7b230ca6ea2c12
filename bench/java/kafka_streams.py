"""The Kafka Streams peers: one restores a topic into its RocksDB (`store_bootstrap`), one joins events with it
(`stage_peers`), and one sends these on routes, too (`stage_routes`).
"""

import shutil
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.harness import cpu_seconds, peak_mib
from bench.java.peers import FOR_THROUGHPUT, compiled

_RESTORE, _ENRICH, _ROUTE = "RestoreGlobalTable", "EnrichWithGlobalTable", "RouteWithGlobalTable"
QUICK = ("-Dbench.quick=true",)
"""Tuned for latency, not for throughput."""
EXACTLY_ONCE = (*QUICK, "-Dbench.once=true")
"""Also in transactions, as often as `profile: realtime` commits."""
_THREADS = "1"
"""Two were slower, with the broker on the same two cores."""


@dataclass(frozen=True)
class Restored:
    """From the start of the process to its state RUNNING."""

    seconds: float
    cpu_seconds: float
    peak_rss_mib: float


@dataclass(frozen=True)
class StreamsApp:
    """The compiled applications."""

    command: Sequence[str]
    folder: Path

    @classmethod
    def compiled(cls, folder: Path) -> "StreamsApp":
        return cls(compiled("streams", folder), folder)

    def restore(self, bootstrap_servers: str, topic: str, rows: int) -> Restored:
        """Raises RuntimeError when it ends early or restored another number of rows."""
        state = self.folder / "state"
        command = [*self.command, _RESTORE, bootstrap_servers, topic, str(state)]
        started = time.perf_counter()
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
            said = "" if process.stdout is None else process.stdout.readline().strip()
            seconds = time.perf_counter() - started
            if said != "running":
                raise RuntimeError(f"Kafka Streams ended before it ran: {said!r}")
            restored = Restored(seconds, cpu_seconds([process.pid]), peak_mib(process.pid))
            answer, _ = process.communicate("\n", timeout=60)
        shutil.rmtree(state, ignore_errors=True)
        if answer.strip() != str(rows):
            raise RuntimeError(f"Kafka Streams restored {answer.strip()!r} rows instead of {rows}")
        return restored

    def joining(self, bootstrap_servers: str, table_topic: str, options: Sequence[str] = ()) -> "StreamsJoin":
        """The events have one way out."""
        return self._running(_ENRICH, bootstrap_servers, table_topic, options)

    def routing(self, bootstrap_servers: str, table_topic: str) -> "StreamsJoin":
        """The events take the routes of `bench.stage.routed`."""
        return self._running(_ROUTE, bootstrap_servers, table_topic)

    def _running(
        self, program: str, bootstrap_servers: str, table_topic: str, options: Sequence[str] = ()
    ) -> "StreamsJoin":
        return StreamsJoin(
            [
                *self.command,
                *FOR_THROUGHPUT,
                *options,
                program,
                bootstrap_servers,
                str(self.folder / "state"),
                table_topic,
                _THREADS,
            ]
        )


class StreamsJoin:
    """A running application that joins events with the table, one pass after the other."""

    def __init__(self, command: Sequence[str]) -> None:
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self._passes = 0

    def begin(self, events: str, dead_letters: str, *outputs: str) -> None:
        """Returns once the table is restored and events are read."""
        self._passes += 1
        self._tell(" ".join([f"join-{self._process.pid}-{self._passes}", events, dead_letters, *outputs]), "running")

    def end(self) -> None:
        self._tell("", "ended")

    def cpu_seconds(self) -> float:
        return cpu_seconds([self._process.pid])

    def close(self) -> None:
        self._process.communicate(timeout=60)

    def _tell(self, what: str, expected: str) -> None:
        if self._process.stdin is None or self._process.stdout is None:
            raise RuntimeError("Kafka Streams has no pipes")
        self._process.stdin.write(what + "\n")
        self._process.stdin.flush()
        said = self._process.stdout.readline().strip()
        if said != expected:
            raise RuntimeError(f"Kafka Streams said {said!r} instead of {expected!r}")
