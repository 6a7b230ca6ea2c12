"""Starts the host's agent when none is alive. Any reader may call it at any time, again and again."""

import json
import os
import signal
import site
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from enrich.base.errors import ConfigError, Unreachable
from enrich.base.processes import Identity, WatchedProcess, identify, pid_namespace, send
from enrich.config import Pipeline
from enrich.config.wire import to_wire
from enrich.host.ipc.header import Header, HeaderReader
from enrich.host.ipc.leases import grandparent, take_lease
from enrich.host.ipc.store_paths import StorePaths, paths_of
from stores.clock import SystemClock

HEARTBEAT_LOST_MS = 3_000
"""An agent without a heartbeat for so long is taken for dead. It writes one every few tens of milliseconds."""

_START_S = 10
"""How long an agent may take from its start to its first heartbeat before another is tried."""

_KEPT = ("PATH", "HOME", "LANG", "LC_ALL", "TZ", "LD_LIBRARY_PATH", "TMPDIR", "XDG_CACHE_HOME", "NUMBA_CACHE_DIR")


class AgentWatch:
    """The header of the agent that lives, for a reader that looks at it again and again."""

    def __init__(self, paths: StorePaths) -> None:
        """Raises FileNotFoundError when no agent has made the file yet."""
        self._reader = HeaderReader(paths.header)
        self._agent: WatchedProcess | None = None

    def header(self) -> Header | None:
        """None when the agent that wrote it is silent or gone, or when another file has taken its place."""
        header = None if self._reader.is_replaced() else self._reader.read()
        if header is None or abs(SystemClock().now_ms() - header.heartbeat_ms) > HEARTBEAT_LOST_MS:
            return None
        can_see_it = header.pid_namespace == pid_namespace()
        return None if can_see_it and not self._lives(Identity(header.pid, header.started)) else header

    def close(self) -> None:
        self._reader.close()
        if self._agent is not None:
            self._agent.close()

    def _lives(self, agent: Identity) -> bool:
        if self._agent is None or self._agent.identity != agent:
            if self._agent is not None:
                self._agent.close()
            self._agent = WatchedProcess(agent)
        return self._agent.lives()


def living_agent(paths: StorePaths) -> Header | None:
    """The agent's header; None when there is no agent, or it is silent."""
    try:
        watch = AgentWatch(paths)
    except FileNotFoundError:
        return None
    try:
        return watch.header()
    finally:
        watch.close()


def ensure_agent(
    pipeline: Pipeline,
    *,
    deadline_s: float = 30,
    linger_s: float | None = None,
    holder: Callable[[], int] = grandparent,
) -> Header:
    """Takes a lease and returns once an agent is alive. Raises Unreachable, with the end of its log, at the deadline,
    and ConfigError for a directory that cannot be used."""
    paths = paths_of(pipeline)
    end = time.monotonic() + deadline_s
    started_at = -float(_START_S)
    while True:
        take_lease(paths.leases, holder())  # each time: somebody may delete the directory meanwhile
        header = living_agent(paths)
        if header is not None:
            return header
        # Several workers may each start one at the same time: the election leaves one.
        if time.monotonic() - started_at >= _START_S:
            started_at = time.monotonic()
            _start(pipeline, paths, linger_s)
        if time.monotonic() > end:
            raise Unreachable(
                f"no agent has started within {deadline_s:g} s{_last_log_line(paths)}",
                where=str(paths.folder),
                next_step=f"read {paths.log}",
            )
        time.sleep(0.02)


def stop_agent(paths: StorePaths, header: Header, *, deadline_s: float) -> None:
    """Stops exactly this agent and waits until it has ended. Raises Unreachable if it does not end in time, ConfigError
    if it cannot be signalled from here."""
    if header.pid_namespace != pid_namespace():
        raise ConfigError(
            "the agent runs in another container and cannot be signalled from here",
            where=str(paths.folder),
            next_step="run `enrich agent stop` in the container that started it",
        )
    agent = Identity(header.pid, header.started)
    end = time.monotonic() + deadline_s
    send(agent, signal.SIGTERM)
    while identify(header.pid) == agent:
        if time.monotonic() > end:
            raise Unreachable(
                f"the agent, process {header.pid}, did not end within {deadline_s:g} s",
                where=str(paths.folder),
                next_step=f"read {paths.log}",
            )
        time.sleep(0.02)


def _start(pipeline: Pipeline, paths: StorePaths, linger_s: float | None) -> None:
    environment = {name: os.environ[name] for name in _KEPT if name in os.environ}
    subprocess.run(
        [_interpreter(), "-m", "enrich.host"],
        input=json.dumps({"lock": str(paths.lock), "pipeline": to_wire(pipeline), "linger_s": linger_s}).encode(),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        # By default glibc keeps a memory arena for each of the many threads of RocksDB, librdkafka and Arrow.
        env={**environment, **_module_path(), "MALLOC_ARENA_MAX": "2"},
        check=True,
    )


def _interpreter() -> str:
    """By the folder that it really is in: YARN links an environment into the folder of each container, which goes with
    the container."""
    program = Path(sys.executable)
    return str(program.parent.resolve() / program.name)


def _module_path() -> dict[str, str]:
    """Nothing if the interpreter itself has our packages: an executor's path has folders that go with its
    application."""
    folder = Path(__file__).resolve().parents[3]
    if folder in {Path(each).resolve() for each in site.getsitepackages()}:
        return {}
    return {"PYTHONPATH": os.pathsep.join(sys.path)}


def _last_log_line(paths: StorePaths) -> str:
    try:
        lines = paths.log.read_text(encoding="utf-8").splitlines()
    except OSError:
        return ""
    return f"; the last line of its log: {lines[-1]}" if lines else ""
