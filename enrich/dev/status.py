"""How the servers of a stack are doing."""

from dataclasses import dataclass
from enum import StrEnum

from enrich.dev.processes import process
from enrich.dev.processes.runfile import RunFile
from enrich.dev.servers.server import Server
from enrich.dev.state import StackFolder, State


class Health(StrEnum):
    running = "running"  # it lives and answers a request
    silent = "silent"  # it lives and does not answer: still starting, frozen or overloaded
    dead = "dead"  # it was started, nobody stopped it, and it does not live
    stopped = "stopped"


@dataclass(frozen=True)
class ServerStatus:
    """One server at one moment."""

    server: str
    state: Health
    address: str
    pid: int | None = None
    memory: int | None = None  # bytes, its children included
    since: float | None = None  # seconds since 1970

    @property
    def is_well(self) -> bool:
        return self.state in (Health.running, Health.stopped)


def look_at(server: Server, folder: StackFolder, state: State) -> ServerStatus:
    """Asks one server. Takes no lock: it works while another command is busy."""
    place = folder.place(server.name, state)
    record = RunFile(folder.run_file(server.name)).record()
    if record is None or not record.serves:
        health = Health.dead if state.servers[server.name].expected else Health.stopped
        return ServerStatus(server.name, health, server.address(place))
    return ServerStatus(
        server.name,
        Health.running if server.answers(place) else Health.silent,
        server.address(place),
        record.process.pid,
        process.memory(record.process),
        process.started_at(record.process),
    )
