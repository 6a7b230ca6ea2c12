"""Leases: files by which executors say that they need the agent, and the agent's watch over their processes.

A lease belongs to a process that stays (the executor), not to the Python worker that took it: idle workers end after a
minute. A lease names the process by its id and start time, so that a reused id does not keep an agent alive.
"""

import os
import select
from contextlib import suppress
from pathlib import Path

from enrich.base.folders import files_of, mark
from enrich.base.processes import Identity, identify, stat


def grandparent() -> int:
    """The executor of a Spark Python worker: worker -> daemon -> executor. For any other process, whose grandparent is
    init, its own id."""
    parent = stat(os.getppid())
    grandparent_id = 0 if parent is None else parent.parent
    return grandparent_id if grandparent_id > 1 else os.getpid()


def take_lease(folder: Path, pid: int) -> None:
    """Says that the process needs the agent until it ends. Taking it again changes nothing."""
    holder = identify(pid)
    if holder is None:
        return
    mark(folder / f"{holder.pid}-{holder.started}")


class LeaseWatch:
    """The agent's side: which holders are alive. Leases of ended processes are removed."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._descriptors: dict[Identity, int] = {}

    def living(self) -> set[Identity]:
        self._open_new()
        for holder, descriptor in list(self._descriptors.items()):
            # The pidfd of an ended process is readable. Unlike its id, it cannot be reused for another process.
            if select.select([descriptor], [], [], 0)[0]:
                self._drop(holder)
        return set(self._descriptors)

    def close(self) -> None:
        for descriptor in self._descriptors.values():
            os.close(descriptor)
        self._descriptors.clear()

    def _open_new(self) -> None:
        for path in files_of(self._folder):
            pid, _, started = path.name.partition("-")
            if not (pid.isdigit() and started.isdigit()):
                continue
            holder = Identity(int(pid), int(started))
            if holder in self._descriptors:
                continue
            try:
                self._descriptors[holder] = os.pidfd_open(holder.pid)
            except ProcessLookupError:
                path.unlink(missing_ok=True)
                continue
            if identify(holder.pid) != holder:
                self._drop(holder)

    def _drop(self, holder: Identity) -> None:
        os.close(self._descriptors.pop(holder))
        with suppress(FileNotFoundError):
            (self._folder / f"{holder.pid}-{holder.started}").unlink()
