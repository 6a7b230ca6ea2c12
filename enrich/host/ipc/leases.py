"""Leases: files by which executors say that they need the agent, and the agent's watch over their processes.

A lease belongs to a process that stays (the executor), not to the Python worker that took it: idle workers end after a
minute. A lease names the process by its id and start time, so that a reused id does not keep an agent alive.
"""

import os
from contextlib import suppress
from pathlib import Path

from enrich.base.folders import files_of, mark
from enrich.base.processes import Identity, WatchedProcess, identify, stat


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
        self._holders: dict[Identity, WatchedProcess] = {}

    def living(self) -> set[Identity]:
        """Raises OSError while the agent has no descriptor left to look."""
        for path in files_of(self._folder):
            pid, _, started = path.name.partition("-")
            if pid.isdigit() and started.isdigit():
                holder = Identity(int(pid), int(started))
                if holder not in self._holders:
                    self._holders[holder] = WatchedProcess(holder)
        for holder in [holder for holder, process in self._holders.items() if not process.lives()]:
            self._holders.pop(holder).close()
            with suppress(FileNotFoundError):
                (self._folder / f"{holder.pid}-{holder.started}").unlink()
        return set(self._holders)

    def close(self) -> None:
        for process in self._holders.values():
            process.close()
        self._holders.clear()
