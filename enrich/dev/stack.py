"""A stack: the servers of one directory. They are started, found again, stopped and deleted together."""

import errno
import logging
import signal
import sys
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from difflib import get_close_matches
from pathlib import Path
from types import TracebackType
from typing import Self

from enrich.base.errors import ConfigError, CorruptState, Fatal, WouldLoseData
from enrich.dev import removal
from enrich.dev.bringup import BringUp, OnStep
from enrich.dev.processes.runfile import RunFile, kill_left_behind
from enrich.dev.processes.starter import disk_full
from enrich.dev.servers.kafka import Kafka
from enrich.dev.servers.postgres import Postgres
from enrich.dev.servers.redis import Redis
from enrich.dev.servers.registry import Registry
from enrich.dev.servers.secure import PORT, make_users
from enrich.dev.servers.secure import of as secure_of
from enrich.dev.servers.server import Server
from enrich.dev.state import StackFolder, State
from enrich.dev.status import ServerStatus, look_at
from enrich.jars import Report

# In the order in which they are shown. They are stopped in reverse order.
MOST_BROKERS = 3
OTHER_BROKERS = tuple(
    Kafka(f"kafka-{node}", port_names=("broker",), node=node, joins="kafka") for node in range(2, MOST_BROKERS + 1)
)
SERVERS: Mapping[str, Server] = {
    server.name: server for server in (Kafka(), *OTHER_BROKERS, Redis(), Postgres(), Registry())
}
SECURE_KAFKA = Kafka(port_names=("broker", "controller", PORT))
ALWAYS = ("kafka", "redis")
ON_DEMAND = tuple(name for name, server in SERVERS.items() if name not in ALWAYS and server.joins is None)

_STOP_PATIENCE = 20.0  # a broker with many partitions needs a while to close its logs
_FULL = (errno.ENOSPC, errno.EDQUOT)

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Addresses:
    """Addresses for clients. None: the server is not running."""

    bootstrap_servers: str
    """Of all brokers, separated by commas."""
    redis_url: str
    postgres_dsn: str | None = None
    registry_url: str | None = None
    secure_bootstrap_servers: str | None = None
    """The broker's encrypted listener; the next three are what its clients need."""
    secure_ca_file: str | None = None
    secure_username: str | None = None
    secure_password: str | None = None

    def running(self) -> dict[str, str]:
        """The addresses of running servers by name, as `enrich dev up --json` prints them."""
        return {name: value for name, value in asdict(self).items() if value is not None}


class Stack:
    """The embedded stack of one directory. As a context manager it is stopped at the end."""

    def __init__(self, directory: Path | str) -> None:
        self.folder = StackFolder(Path(directory))

    def up(
        self,
        with_: Iterable[str] = (),
        *,
        on_step: OnStep = lambda *_: None,
        report: Report | None = None,
        new_ports: bool = False,
        final: bool = False,
        secure: bool = False,
        brokers: int | None = None,
    ) -> Addresses:
        """Starts broker, Redis, the servers of `with_` and those that ran before, and waits until they answer.

        `on_step` is called with the servers' progress, `report` with that of downloads. `new_ports`: a server whose
        port is taken moves to another port. `secure`: the broker gets an encrypted listener with users and rights,
        permanently; a running broker is restarted. `brokers`: how many, from the stack's first start on; by default as
        many as it has, or one. `final`: this process only prints the result, so a signal that comes
        too late to undo the start is ignored. Raises ConfigError, Unreachable or Fatal; then nothing that this call
        started is running any more, and what ran before runs.
        """
        if sys.platform != "linux":
            raise ConfigError(
                f"the embedded stack needs Linux, and this is {sys.platform}",
                next_step="`docker compose up` gives the same servers",
            )
        wanted = {*ALWAYS, *_known(with_)}
        with _disk_errors(self.folder.path):
            self.folder.load()  # refuses a directory that is no stack before anything is written there
            with self.folder.locked():
                state = self.folder.load()
                self._clear_left_behind()
                self._require_here()
                wanted |= {name for name, entry in state.servers.items() if entry.expected or entry.joins}
                others = self._other_brokers(state, brokers)
                wanted |= {server.name for server in others}
                servers = [server for name, server in SERVERS.items() if name in wanted]
                former = None
                if secure or self._is_secure(state):
                    if others:
                        raise ConfigError(
                            "the encrypted listener is there for one broker only", where=str(self.folder.path)
                        )
                    servers[0] = SECURE_KAFKA
                    # Or a killed `up` has noted that it is to be secure, and come no further: its broker may still run.
                    if not self._is_secure(state) or secure_of(self.folder.home("kafka", state)) is None:
                        former = SERVERS["kafka"]
                servers = [
                    replace(server, brokers=1 + len(others)) if isinstance(server, Kafka) else server
                    for server in servers
                ]

                def complete() -> None:
                    if self._is_secure(state):
                        home = self.folder.home("kafka", state)
                        make_users(home, SECURE_KAFKA.address(home))

                bring_up = BringUp(self.folder, state, servers, on_step, former)
                bring_up.run(report, new_ports=new_ports, final=final, complete=complete)
        # Of all that were brought up: one may have died since, and then `status` says so.
        return self._addresses(state, {server.name for server in servers})

    def down(self) -> list[str]:
        """Stops every server, keeping data and ports. Returns the names of those that ran."""
        with _disk_errors(self.folder.path):
            left = self._clear_left_behind()
            if not self._run_names():
                return left
            with self.folder.locked():
                self._require_here()
                if not self._note_stopped():
                    log.warning("the disk is full (%s): `status` will call dead what is stopped now", self.folder.path)
                return left + self._stop_all()

    def reset(self, *, yes: bool) -> bool:
        """Stops every server and deletes the stack with its data. Returns whether there was one.

        Raises WouldLoseData without `yes`, ConfigError for a directory that is no stack or holds anything else.
        """
        with _disk_errors(self.folder.path):
            self._clear_left_behind()
            if self.folder.is_empty():
                return False
            removal.check_deletable(self.folder, SERVERS)
            if not yes:
                raise WouldLoseData(
                    f"this would delete the stack with its data: {removal.describe(self.folder)}",
                    where=str(self.folder.path),
                    next_step="add --yes if that is what you want",
                )
            with self.folder.locked():
                if not self.folder.is_empty():  # as another `reset` leaves it, for which this one has waited
                    removal.check_deletable(self.folder, SERVERS)
                self._require_here()
                self._note_stopped()
                self._stop_all()
                removal.delete(self.folder)
        return True

    def addresses(self) -> Addresses | None:
        """The addresses of this stack; None unless broker and Redis are running. Does not connect to them."""
        with _disk_errors(self.folder.path):
            if not self.folder.is_stack():
                return None
            state = self.folder.load()
            running = self._running(state)
            return self._addresses(state, running) if running.issuperset(ALWAYS) else None

    def status(self) -> list[ServerStatus]:
        """The state of each server that this stack has ever had."""
        with _disk_errors(self.folder.path):
            state = self.folder.load()
            return [look_at(SERVERS[name], self.folder, state) for name in SERVERS if name in state.servers]

    def logs(self, server: str | None = None) -> dict[str, Path]:
        """The log files by server. Raises ConfigError for a server that this stack never had."""
        with _disk_errors(self.folder.path):
            names = [name for name in SERVERS if self.folder.log(name).exists()]
        if server is not None and server not in names:
            raise ConfigError(
                f"there is no log of {server!r}",
                where=str(self.folder.logs),
                next_step=f"this stack has logs of: {', '.join(names) or 'no server yet'}",
            )
        return {name: self.folder.log(name) for name in names if server in (None, name)}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.down()

    def _addresses(self, state: State, names: Collection[str]) -> Addresses:
        addresses = {name: SERVERS[name].address(self.folder.home(name, state)) for name in names}
        brokers = [addresses[name] for name in SERVERS if name in addresses and isinstance(SERVERS[name], Kafka)]
        plain = Addresses(",".join(brokers), addresses["redis"], addresses.get("postgres"), addresses.get("registry"))
        secure = secure_of(self.folder.home("kafka", state))
        if secure is None:
            return plain
        return replace(
            plain,
            secure_bootstrap_servers=secure.servers,
            secure_ca_file=str(secure.ca_file),
            secure_username=secure.username,
            secure_password=secure.password,
        )

    def _other_brokers(self, state: State, asked: int | None) -> tuple[Kafka, ...]:
        """Those beside the first. Raises ConfigError if that is not what the stack has, or more than it can have."""
        if asked is not None and not 1 <= asked <= MOST_BROKERS:
            raise ConfigError(f"a stack has 1 to {MOST_BROKERS} brokers, not {asked}")
        has = 1 + sum(entry.joins == "kafka" for entry in state.servers.values())
        if asked is not None and asked != has and "kafka" in state.servers:
            raise ConfigError(
                f"this stack has {'one broker' if has == 1 else f'{has} brokers'}, and its topics as many copies",
                where=str(self.folder.path),
                next_step="choose another --dir, or begin anew: `enrich dev reset --yes`",
            )
        return OTHER_BROKERS[: (asked or has) - 1]

    @staticmethod
    def _is_secure(state: State) -> bool:
        return "kafka" in state.servers and PORT in state.servers["kafka"].ports

    def _running(self, state: State) -> set[str]:
        records = {name: self._run_file(name).record() for name in SERVERS if name in state.servers}
        return {name for name, record in records.items() if record is not None and record.serves}

    def _run_names(self) -> list[str]:
        """The servers that have a run file. In a folder that is no stack, or whose state was deleted, other programs
        may keep files of such names, and lock them: those of ours have a record."""
        names, is_stack = list(self.folder.run_files()), self.folder.is_stack()
        return [name for name in names if is_stack or self._run_file(name).record() is not None]

    def _require_here(self) -> None:
        for name in self._run_names():
            self._run_file(name).require_here()

    def _note_stopped(self) -> bool:
        """So that what is stopped now is not taken for dead. Returns False on a full disk: that must not keep anybody
        from stopping what fills it, and from deleting it."""
        with suppress(ConfigError, CorruptState):  # a state that this version cannot read is not changed
            state = self.folder.load()
            for entry in state.servers.values():
                entry.expected = False
            try:
                self.folder.save(state)
            except OSError as error:
                if error.errno not in _FULL:
                    raise
                return False
        return True

    def _stop_all(self) -> list[str]:
        alive = [name for name in self._run_names() if not self._run_file(name).is_free()]
        order = list(SERVERS)
        alive.sort(key=lambda name: order.index(name) if name in order else len(order), reverse=True)
        self._stop(alive)
        return alive

    def _stop(self, alive: Collection[str]) -> None:
        # Those that join another first: without their controller brokers wait for minutes before they end.
        joining = [name for name in alive if name in SERVERS and SERVERS[name].joins is not None]
        is_alone = [name for name in joining if SERVERS[name].joins not in alive]
        for names in (joining, [name for name in alive if name not in joining]):
            for name in names:
                number = SERVERS[name].stop_signal if name in SERVERS else signal.SIGTERM
                self._run_file(name).ask_to_stop(signal.SIGKILL if name in is_alone else number)
            for name in names:
                if self._run_file(name).wait_stopped(_STOP_PATIENCE):
                    log.warning("%s did not stop within %.0f s and was killed", name, _STOP_PATIENCE)

    def _clear_left_behind(self) -> list[str]:
        names = kill_left_behind(self.folder.run_file(name) for name in SERVERS)
        for name in names:
            log.warning(
                "%s was still running although its stack had been deleted; killed it (%s)", name, self.folder.path
            )
        return sorted(names)

    def _run_file(self, name: str) -> RunFile:
        return RunFile(self.folder.run_file(name))


def _known(names: Iterable[str]) -> set[str]:
    for name in names:
        if name not in (*ALWAYS, *ON_DEMAND):
            near = get_close_matches(name, ON_DEMAND, n=1)
            hint = f"did you mean {near[0]!r}?" if near else f"there are: {', '.join(ON_DEMAND)}"
            raise ConfigError(f"the stack has no server {name!r}", next_step=hint)
    return set(names)


@contextmanager
def _disk_errors(path: Path) -> Iterator[None]:
    """Maps the system's errors about the stack's directory to errors for people."""
    try:
        yield
    except OSError as error:
        where = str(error.filename or path)
        if error.errno in _FULL:
            raise disk_full(path) from error
        if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS, errno.EEXIST, errno.ENOTDIR):
            what = f"the directory of the stack cannot be used: {error.strerror}"
            raise ConfigError(what, where=where, next_step="choose another one with --dir") from error
        raise Fatal(f"{error.strerror or error}", where=where) from error
