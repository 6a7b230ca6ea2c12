"""The states of a stack's servers."""

from dataclasses import dataclass
from enum import StrEnum

from enrich.base.processes import started_at
from enrich.dev.processes import process
from enrich.dev.processes.runfile import RunFile
from enrich.dev.servers.server import Server
from enrich.dev.state import StackFolder, State


class Health(StrEnum):
    running = "running"  # its process is alive and answers a request
    silent = "silent"  # its process is alive and does not answer: still starting, frozen or overloaded
    dead = "dead"  # it was started, nobody stopped it, and its process is not alive
    stopped = "stopped"


@dataclass(frozen=True)
class ServerStatus:
    """One server at one moment."""

    server: str
    state: Health
    address: str
    pid: int | None = None
    memory: int | None = None  # bytes, including its children
    since: float | None = None  # seconds since 1970

    @property
    def is_well(self) -> bool:
        return self.state in (Health.running, Health.stopped)


def look_at(server: Server, folder: StackFolder, state: State) -> ServerStatus:
    """Checks one server. It takes no lock, so it works while another command is busy."""
    home = folder.home(server.name, state)
    record = RunFile(folder.run_file(server.name)).record()
    if record is None or not record.serves:
        health = Health.dead if state.servers[server.name].expected else Health.stopped
        return ServerStatus(server.name, health, server.address(home))
    return ServerStatus(
        server.name,
        Health.running if server.answers(home) else Health.silent,
        server.address(home),
        record.process.pid,
        process.memory(record.process),
        started_at(record.process),
    )
