"""The agent as benchmarks meet it: a process of its own, started as a reader starts it, watched from outside."""

import os
import shutil
import signal
import threading
import time
from contextlib import AbstractContextManager
from dataclasses import dataclass

import psutil

from bench.kit.processes import running
from enrich.base.errors import Unreachable
from enrich.base.processes import identify
from enrich.config import Pipeline
from enrich.host.ipc.header import Header
from enrich.host.ipc.store_paths import paths_of
from enrich.host.memory_use import private_bytes
from enrich.host.reader.spawn import ensure_agent, living_agent, stop_agent

_DEADLINE_S = 120
_LOOK_EVERY_S = 0.005
_MEASURE_EVERY_S = 0.05  # often enough for a peak, seldom enough to leave the agent its processor
_SETTLE_S = 3
_IDLE_PROCESSES = 2
"""The agent and the template of what works for it."""


def private_mib(*pids: int) -> float:
    """Memory that belongs to these processes: see `private_bytes`."""
    return private_bytes(pids) / 2**20


def family(pid: int) -> list[int]:
    """The agent and the processes that load tables for it."""
    return [pid, *(child.pid for child in psutil.Process(pid).children(recursive=True))]


@dataclass(frozen=True)
class Start:
    """How an agent came to be ready."""

    alive_s: float
    """From the request to its first heartbeat: the interpreter and its imports."""
    ready_s: float
    """From the request to all tables ready."""
    pid: int


def start_agent(pipeline: Pipeline, deadline_s: float = _DEADLINE_S) -> Start:
    """Starts the agent and returns once all its tables are ready."""
    started = time.perf_counter()
    pid = wait_until_alive(pipeline)
    alive_s = time.perf_counter() - started
    wait_until_ready(pipeline, deadline_s=deadline_s)
    return Start(alive_s, time.perf_counter() - started, pid)


def wait_until_alive(pipeline: Pipeline) -> int:
    """Starts the agent if there is none. Returns its process id."""
    return ensure_agent(pipeline, holder=os.getpid).pid


def wait_until_ready(pipeline: Pipeline, *tables: str, deadline_s: float = _DEADLINE_S) -> None:
    """Raises Unreachable, with the reasons, when that takes longer."""
    end = time.perf_counter() + deadline_s
    while True:
        header = living_agent(paths_of(pipeline))
        waiting = {} if header is None else _waiting(header, tables)
        if header is not None and not waiting:
            return
        if time.perf_counter() > end:
            raise Unreachable(f"the agent is not ready: {waiting}", where=str(paths_of(pipeline).folder))
        time.sleep(_LOOK_EVERY_S)


def end_agent(pipeline: Pipeline) -> None:
    """Ends the agent, if one lives; its store stays."""
    paths = paths_of(pipeline)
    header = living_agent(paths)
    if header is not None:
        stop_agent(paths, header, deadline_s=30)


def kill_agent(pid: int) -> None:
    """kill -9, and waits until the process is gone."""
    holder = identify(pid)
    os.kill(pid, signal.SIGKILL)
    while holder is not None and identify(pid) == holder:
        time.sleep(_LOOK_EVERY_S)


def remove_agent(pipeline: Pipeline) -> None:
    """Ends the agent, if one lives, and deletes its store."""
    end_agent(pipeline)
    shutil.rmtree(pipeline.state_dir, ignore_errors=True)


class MemoryWatch:
    """The most private memory that an agent takes, from its first heartbeat on."""

    def __init__(self, pipeline: Pipeline) -> None:
        self._paths = paths_of(pipeline)
        self._stopped = threading.Event()
        self.peak_mib = 0.0

    def watching(self) -> AbstractContextManager[None]:
        return running(self._watch, self._stopped)

    def _watch(self) -> None:
        header: Header | None = None
        while not self._stopped.wait(_MEASURE_EVERY_S):
            header = header or living_agent(self._paths)
            if header is not None:
                self.peak_mib = max(self.peak_mib, private_mib(*family(header.pid)))


def steady_mib(pid: int) -> float:
    """Private memory some time after the work is done, that of building segments included."""
    time.sleep(_SETTLE_S)
    while len(family(pid)) > _IDLE_PROCESSES:
        time.sleep(_SETTLE_S)
    return private_mib(*family(pid))


def _waiting(header: Header, tables: tuple[str, ...]) -> dict[str, str | None]:
    return {name: header.tables[name].reason for name in tables or header.tables if not header.tables[name].ready}
