"""Starts one server: prepares its folder, spawns it, waits until it answers, and explains why if it does not."""

import shutil
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from enrich.base.errors import Fatal, Unreachable
from enrich.dev.processes import process
from enrich.dev.processes.logs import Mark, rotate
from enrich.dev.processes.runfile import SERVE, RunFile
from enrich.dev.servers import ports
from enrich.dev.servers.server import Command, Home, Prepare, Server, StepFailed

_POLL = 0.03
_SHOWN_LINES = 12
_NO_SPACE = ("No space left on device", "Disk quota exceeded")
_PORT_TAKEN = ("already in use", "already bound", "BindException")
_ROOM_LEFT = 1 << 20  # with less free space the disk counts as full, even if the log had no room left to say so


class Cancelled(Exception):
    """The start was given up, because of a signal or because another server failed."""


class Died(Exception):
    """A server that seemed to be running has ended: a killed process stays in the process table for a while."""


class PortTaken(Fatal):
    """Another program listens on the port of a server."""


@dataclass(frozen=True)
class Starter:
    """The start of one server."""

    server: Server
    run_file: RunFile
    log: Path
    on_step: Callable[[str], None]
    cancelled: Callable[[], bool]

    def start(self, home: Home, prepare: Prepare) -> None:
        """Raises PortTaken, Unreachable (too slow), Fatal (it ended, disk full) or Cancelled."""
        if not all(map(ports.is_free, home.ports.values())):
            raise port_taken(self.server, home)
        home.folder.mkdir(parents=True, exist_ok=True)
        rotate(self.log)
        mark = Mark(self.log)
        self.on_step("preparing")
        command = prepare(home, partial(self._run, home))
        self._go_on()
        self.on_step("starting")
        self.run_file.spawn(command, SERVE, home.folder, self.log)
        self.wait(home, mark)

    def wait(self, home: Home, mark: Mark | None = None) -> None:
        """Waits until the server answers. `mark`: where its log begins, if it was started here; if not, and it ends,
        raises Died."""
        deadline = time.monotonic() + self.server.patience
        while True:
            self._go_on()
            if self.run_file.running() is None:
                raise Died if mark is None else self._ended(home, mark)
            if self.server.answers(home) and self.run_file.running() is not None:
                return
            if time.monotonic() >= deadline:
                what = f"{self.server.name} runs, but has not answered for {self.server.patience:.0f} s"
                raise Unreachable(
                    f"{what}{'' if mark is None else mark.quote(_SHOWN_LINES)}",
                    where=f"{self.server.address(home)}, log {self.log}",
                    next_step="`enrich dev down`, then `enrich dev up`; if that does not help, see its log",
                )
            time.sleep(_POLL)

    def _run(self, home: Home, command: Command) -> None:
        step = Path(command.argv[0]).name
        mark = Mark(self.log)
        child = self.run_file.spawn(command, step, home.folder, self.log)
        while not self.run_file.is_free():
            if self.cancelled():
                self.run_file.ask_to_stop(signal.SIGTERM)
                self.run_file.wait_stopped(patience=1.0)
                raise Cancelled
            time.sleep(_POLL / 2)
        if child is None or process.exit_code(child) != 0:
            what = f"{step}, which prepares the folder of {self.server.name}, failed"
            raise self._disk_full(home, mark) or StepFailed(f"{what}{mark.quote(_SHOWN_LINES)}", where=str(self.log))

    def _ended(self, home: Home, mark: Mark) -> Fatal:
        if (full := self._disk_full(home, mark)) is not None:
            return full
        lines = mark.tail(200)
        if any(sign in line for line in lines for sign in _PORT_TAKEN):
            return port_taken(self.server, home)
        return Fatal(
            f"{self.server.name} ended while it started{mark.quote(_SHOWN_LINES) or ' and logged nothing'}",
            where=f"log {self.log}",
            next_step="see the log lines above; `enrich dev up` tries again",
        )

    def _disk_full(self, home: Home, mark: Mark) -> Fatal | None:
        said = any(sign in line for line in mark.tail(1_000) for sign in _NO_SPACE)
        return disk_full(home.folder) if said or shutil.disk_usage(home.folder).free < _ROOM_LEFT else None

    def _go_on(self) -> None:
        if self.cancelled():
            raise Cancelled


def port_taken(server: Server, home: Home) -> PortTaken:
    taken = [port for port in home.ports.values() if not ports.is_free(port)] or list(home.ports.values())
    owner = ports.owner(taken[0])
    return PortTaken(
        f"port {taken[0]} of {server.name} is taken by {'another program' if owner is None else owner}",
        where=f"stack {home.folder.parent}",
        next_step="stop that program; or `enrich dev up --new-ports` gives the server another port and keeps its data",
    )


def disk_full(folder: Path) -> Fatal:
    return Fatal("the disk is full", where=str(folder), next_step="free some space there, then `enrich dev up` again")
