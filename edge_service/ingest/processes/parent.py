"""The parent of several processes that serve the same addresses: starts them, and again what ends, and stops all."""

import json
import logging
import os
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from edge_service.ingest.processes.overview import Overview
from edge_service.ingest.processes.planning import Address
from edge_service.ingest.processes.reports import ProcessReport, ProcessState
from enrich.base.backoff import Backoff
from enrich.base.error_wire import from_wire
from enrich.base.errors import ConfigError, EnrichError, Fatal
from enrich.base.logs import LogFormat, logs_are_json
from enrich.config import Pipeline
from enrich.config.wire import to_wire

_log = logging.getLogger("enrich.ingest")

_TURN_S = 0.1
_LARGEST_REPORT = 1 << 20
_RECOVERED_S = 60.0
"""After a process ran so long the pause before its next start is short again."""
_KILL_S = 26.5
"""Later than a process ends by itself, which may wait for slow senders and then for its last tallies. Schedulers kill
after 30 s."""


@dataclass
class _Child:
    number: int
    process: "subprocess.Popen[bytes]"
    reports: socket.socket
    started: float
    failure: EnrichError | None = None
    has_closed: bool = False


class Parent:
    """Runs in the main thread, which gets the signals. Raises in `run` what keeps the first processes from starting."""

    def __init__(
        self, pipeline: Pipeline, addresses: Sequence[Address], ports: Mapping[str, int], overview: Overview
    ) -> None:
        self._overview = overview
        self._plan = json.dumps({"pipeline": to_wire(pipeline), "ports": ports, "logs": _logs()}).encode()
        self._numbers = range(max(address.processes for address in addresses))
        self._children: dict[int, _Child] = {}
        self._again: dict[int, float] = {}
        """When which process is started again."""
        self._pauses = {number: Backoff(0.5, 30.0) for number in self._numbers}
        self._served: set[int] = set()
        """Numbers of processes that have served, once."""
        self._stopping_since: float | None = None
        self._failure: EnrichError | None = None

    def run(self) -> None:
        for number in self._numbers:
            self._start(number)
        told = False
        while self._children or self._stopping_since is None:
            self._listen()
            self._bury()
            if self._stopping_since is not None:
                if not told:
                    told = True
                    self._signal_all(signal.SIGTERM)
                if time.monotonic() - self._stopping_since > _KILL_S:
                    self._signal_all(signal.SIGKILL)
                continue
            for number in [number for number, when in self._again.items() if when <= time.monotonic()]:
                del self._again[number]
                self._start(number)
                self._overview.restarts += 1
        if self._failure is not None:
            raise self._failure

    def stop(self) -> None:
        """May be called by a signal handler."""
        if self._stopping_since is None:
            self._stopping_since = time.monotonic()
            self._overview.is_leaving = True

    def _start(self, number: int) -> None:
        # Datagrams that keep their order and end with the process: a report is whole, or not there.
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            process = subprocess.Popen(
                [sys.executable, "-m", "edge_service.ingest.processes.child", str(number), str(theirs.fileno())],
                stdin=subprocess.PIPE,
                pass_fds=[theirs.fileno()],
                env={**os.environ, "MALLOC_ARENA_MAX": "2"},
            )
        assert process.stdin is not None  # noqa: S101 - it was asked for
        try:
            process.stdin.write(self._plan)
            process.stdin.close()
        except BrokenPipeError:
            pass  # it has ended already, which is seen in a moment
        ours.setblocking(False)
        self._children[number] = _Child(number, process, ours, time.monotonic())
        self._overview.heard(number, process.pid, ProcessReport())

    def _listen(self) -> None:
        by_socket = {child.reports: child for child in self._children.values() if not child.has_closed}
        readable, _, _ = select.select(list(by_socket), [], [], _TURN_S)
        for each in readable:
            self._read(by_socket[each])

    def _read(self, child: _Child) -> None:
        while True:
            try:
                message = child.reports.recv(_LARGEST_REPORT)
            except (BlockingIOError, ConnectionResetError):
                return
            if not message:
                child.has_closed = True  # it ends
                return
            if message.startswith(b"!"):
                child.failure = from_wire(json.loads(message[1:]))
                continue
            report = ProcessReport.from_wire(message)
            self._overview.heard(child.number, child.process.pid, report)
            if report.state is ProcessState.serving:
                if not self._served:
                    self._overview.announce()
                self._served.add(child.number)

    def _bury(self) -> None:
        for child in list(self._children.values()):
            code = child.process.poll()
            if code is None:
                continue
            self._read(child)  # its last words
            child.reports.close()
            del self._children[child.number]
            why = str(child.failure) if child.failure is not None else _how_it_ended(code)
            self._overview.ended(child.number, why)
            if self._stopping_since is not None:
                continue
            is_wrong = isinstance(child.failure, ConfigError) and child.number not in self._served
            if is_wrong or not self._served:
                # It has never worked: it is not by trying again that it will.
                self._failure = child.failure or Fatal(f"a process ended before it served: {why}")
                self.stop()
                continue
            if time.monotonic() - child.started > _RECOVERED_S:
                self._pauses[child.number].reset()
            pause_s = self._pauses[child.number].next_s()
            self._again[child.number] = time.monotonic() + pause_s
            _log.warning("process %d %s", child.process.pid, why, extra={"again_in_s": round(pause_s, 1)})

    def _signal_all(self, number: signal.Signals) -> None:
        for child in self._children.values():
            child.process.send_signal(number)


def _how_it_ended(code: int) -> str:
    if code >= 0:
        return "ended" if code == 0 else f"ended with code {code}"
    try:
        return f"was killed by {signal.Signals(-code).name}"
    except ValueError:
        return f"was killed by signal {-code}"


def _logs() -> dict[str, Any]:
    level = logging.getLogger().level
    return {
        "format": LogFormat.json if logs_are_json() else LogFormat.text,
        "level": logging.getLevelName(level).lower(),
    }
