"""One `up`: starts all servers that are not running, in parallel. If one fails, none of them stays."""

import logging
import secrets
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import suppress
from functools import partial

from enrich.base.errors import EnrichError
from enrich.dev.processes import interrupts
from enrich.dev.processes.runfile import RunFile
from enrich.dev.processes.starter import Cancelled, Died, PortTaken, Starter, disk_full, port_taken
from enrich.dev.servers import ports
from enrich.dev.servers.server import Home, Prepare, Server
from enrich.dev.state import ServerState, StackFolder, State
from enrich.jars import Report

OnStep = Callable[[str, str], None]
"""Called with a server's name and what it is doing, from several threads."""

_ATTEMPTS = 3  # at a first start: another program may take a port between its choice and its use
_ROOM = 64 << 20  # a little more than a first start of all servers writes
_UNDO_PATIENCE = 5.0
_STOP_PATIENCE = 20.0  # as `down` has it, for a broker with many partitions
_POLL = 0.05

log = logging.getLogger(__name__)


class BringUp:
    """One call of `up`, under the stack's lock."""

    def __init__(
        self,
        folder: StackFolder,
        state: State,
        servers: Sequence[Server],
        on_step: OnStep,
        former: Server | None = None,
    ) -> None:
        """`former`: what one of the servers was up to now. If it runs it is stopped for that one, and started again if
        something fails."""
        self._folder = folder
        self._state = state
        self._servers = servers
        self._on_step = on_step
        self._former = former
        self._added_ports: dict[str, set[str]] = {}
        self._started: list[Server] = []
        self._moved: set[str] = set()
        """Servers that got other ports than they had."""
        self._cancel = threading.Event()
        self._changing = threading.Lock()

    def run(
        self,
        report: Report | None,
        *,
        new_ports: bool,
        final: bool,
        complete: Callable[[], None] = lambda: None,
    ) -> None:
        """Returns once every server answers and `complete`, called then, is done. On any error or signal the servers
        started here are stopped again."""
        former = self._former if self._former is not None and self._runs(self._former) else None
        replaced = None if former is None else former.name
        self._started = [server for server in self._servers if server.name == replaced or not self._runs(server)]
        # First, since it may download: nothing has started yet.
        equipped = {server.name: server.equip(report) for server in self._started}
        was_expected = {name: entry.expected for name, entry in self._state.servers.items()}
        was_ready = {name for name, entry in self._state.servers.items() if entry.settled}
        if self._started and self._folder.free_space() < _ROOM:
            raise disk_full(self._folder.path)
        for server in self._started:
            self._settle_in(server, new_ports=new_ports)
        # They would look for the one that they join at its old ports, and never find it.
        following = [one for one in self._servers if one.joins in self._moved and one not in self._started]
        self._started += following
        equipped |= {server.name: server.equip(report) for server in following}
        restarted = {replaced, *(server.name for server in following)}
        with interrupts.deferred() as signals:
            try:
                self._save()
                if former is not None:
                    self._run_file(former).ask_to_stop(former.stop_signal)
                    self._run_file(former).wait_stopped(_STOP_PATIENCE, lambda: signals.hurried)
                self._start(equipped, signals)
                complete()
                signals.commit(final=final)
                for server in self._servers:
                    entry = self._state.servers[server.name]
                    entry.settled = entry.expected = True
                self._save()
            except BaseException:
                self._undo(was_expected, signals)
                if former is not None:
                    self._start_again(former, signals)
                raise
        for server in self._started:
            if was_expected.get(server.name) and server.name in was_ready and server.name not in restarted:
                log.warning("%s had died; started again at %s", server.name, server.address(self._home(server)))

    def _runs(self, server: Server) -> bool:
        record = self._run_file(server).running()
        return record is not None and record.serves and server.name in self._state.servers

    def _settle_in(self, server: Server, *, new_ports: bool) -> None:
        """Chooses the server's ports: it keeps those it has, unless they are taken and may still change."""
        entry = self._state.servers.get(server.name)
        if entry is not None and (missing := set(server.port_names) - set(entry.ports)):
            # A listener that was not there before: the known ports of the others must not change.
            chosen = ports.choose(len(missing), self._state.ports())
            entry.ports |= dict(zip(sorted(missing), chosen, strict=True))
            self._added_ports[server.name] = missing
        if entry is None:
            self._state.servers[server.name] = entry = ServerState({}, _token(), joins=server.joins)
            entry.ports = self._choose_ports(server)
        # If processes of it still live (children of a killed server), they may hold its ports.
        elif self._run_file(server).is_free() and not all(map(ports.is_free, entry.ports.values())):
            if entry.settled and not new_ports:
                raise port_taken(server, self._home(server))
            entry.ports = self._choose_ports(server)
            self._moved.add(server.name)
        entry.expected = True

    def _choose_ports(self, server: Server) -> dict[str, int]:
        chosen = ports.choose(len(server.port_names), self._state.ports())
        return dict(zip(server.port_names, chosen, strict=True))

    def _start(self, equipped: Mapping[str, Prepare], signals: interrupts.Deferred) -> None:
        with ThreadPoolExecutor(len(self._servers)) as pool:
            futures = [pool.submit(self._start_one, server, equipped.get(server.name)) for server in self._servers]
            pending: set[Future[None]] = set(futures)
            while pending:
                done, pending = wait(pending, timeout=_POLL, return_when=FIRST_COMPLETED)
                if signals.pending or any(future.exception() for future in done):
                    self._cancel.set()
        signals.check()
        errors = [error for future in futures if (error := future.exception()) is not None]
        for error in sorted(errors, key=lambda error: isinstance(error, Cancelled)):
            raise error  # the first real error; `Cancelled` only says that another server failed

    def _start_one(self, server: Server, prepare: Prepare | None) -> None:
        run_file = self._run_file(server)
        on_step = partial(self._on_step, server.name)
        starter = Starter(server, run_file, self._folder.log(server.name), on_step, self._cancel.is_set)
        if prepare is None:
            try:
                starter.wait(self._home(server))
            except Died:
                prepare = server.equip(None)
                with self._changing:
                    self._started.append(server)
        if prepare is not None:
            run_file.ask_to_stop(server.stop_signal)  # processes that a killed `up` or server left
            run_file.wait_stopped(_UNDO_PATIENCE, self._cancel.is_set)
            self._start_somewhere(server, starter, prepare)
        on_step("ready")

    def _start_somewhere(self, server: Server, starter: Starter, prepare: Prepare) -> None:
        entry = self._state.servers[server.name]
        for left in reversed(range(_ATTEMPTS)):
            try:
                return starter.start(self._home(server), prepare)
            except PortTaken:
                if entry.settled or left == 0:
                    raise
            with self._changing:
                entry.ports = self._choose_ports(server)
                self._save()
        raise AssertionError("unreachable")

    def _undo(self, was_expected: Mapping[str, bool], signals: interrupts.Deferred) -> None:
        for server in reversed(self._started):
            self._run_file(server).ask_to_stop(server.stop_signal)
        for server in reversed(self._started):
            self._run_file(server).wait_stopped(_UNDO_PATIENCE, lambda: signals.hurried)
        # Ports and tokens stay: data that was just created belongs to the token.
        for name, entry in self._state.servers.items():
            entry.expected = was_expected.get(name, False)
            for port in self._added_ports.get(name, ()):
                del entry.ports[port]
        with suppress(OSError):  # for example a full disk: the original error is the one to show
            self._save()

    def _start_again(self, former: Server, signals: interrupts.Deferred) -> None:
        on_step = partial(self._on_step, former.name)
        log_file = self._folder.log(former.name)
        starter = Starter(former, self._run_file(former), log_file, on_step, lambda: signals.hurried)
        try:
            starter.start(self._home(former), former.equip(None))
        except (EnrichError, Cancelled, OSError) as error:
            log.warning("%s, which ran before, could not be started again: %s", former.name, error)

    def _save(self) -> None:
        self._folder.save(self._state)

    def _run_file(self, server: Server) -> RunFile:
        return RunFile(self._folder.run_file(server.name))

    def _home(self, server: Server) -> Home:
        return self._folder.home(server.name, self._state)


def _token() -> str:
    while (token := secrets.token_urlsafe(16)).startswith("-"):
        pass  # Kafka's tools would take a leading dash for an option
    return token
