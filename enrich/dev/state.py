"""A stack's directory: the state file, by which it is recognised, and the lock of the commands."""

import fcntl
import json
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import IO

from pydantic import TypeAdapter

from enrich.base.errors import ConfigError, CorruptState, Retryable
from enrich.dev.servers.server import Home

FORMAT = 1
STATE_FILE = "enrich-stack.json"  # its name marks a directory as a stack and must not change in future formats
LOCK_FILE = "lock"
_LOCK_PATIENCE = 120.0
_POLL = 0.05


@dataclass
class ServerState:
    """The stored state of one server."""

    ports: dict[str, int]
    token: str
    settled: bool = False  # it was ready once: somebody may know its ports, so they stay
    expected: bool = False  # it was started and not stopped since: if it is not running, it died
    joins: str | None = None  # the server whose cluster it belongs to


_SERVERS = TypeAdapter(dict[str, ServerState])


@dataclass
class State:
    servers: dict[str, ServerState] = field(default_factory=dict)

    def ports(self) -> set[int]:
        return {port for server in self.servers.values() for port in server.ports.values()}


class StackFolder:
    """A stack's directory."""

    def __init__(self, path: Path) -> None:
        """Raises ConfigError for a path that leads nowhere: a circle of links, or one in a folder that was deleted."""
        try:
            self.path = path.resolve()  # as in /proc, where processes of a deleted stack are searched
        except (OSError, RuntimeError) as error:
            raise ConfigError(
                "the directory of the stack cannot be found",
                where=f"{path}: {error}",
                next_step="change to a folder that is there, or choose another one with --dir",
            ) from error
        self.logs = self.path / "logs"
        self._state_file = self.path / STATE_FILE

    def is_stack(self) -> bool:
        return self._state_file.is_file()

    def is_empty(self) -> bool:
        """Whether the directory has nothing but files that a killed first start may leave."""
        if not self.path.exists():
            return True
        if not self.path.is_dir():
            return False
        names = {entry.name for entry in self.path.iterdir()}
        return all(name == LOCK_FILE or name.startswith(f".{STATE_FILE}.") for name in names)

    def server(self, name: str) -> Path:
        return self.path / name

    def home(self, name: str, state: State) -> Home:
        entry = state.servers[name]
        joins = None if entry.joins is None else self.home(entry.joins, state)
        return Home(self.server(name), entry.ports, entry.token, joins)

    def log(self, name: str) -> Path:
        return self.logs / f"{name}.log"

    def run_file(self, name: str) -> Path:
        # `run/<server>.pid` must not change between formats: a version that cannot read the state can then still stop
        # the servers.
        return self.path / "run" / f"{name}.pid"

    def run_files(self) -> dict[str, Path]:
        return {path.stem: path for path in sorted((self.path / "run").glob("*.pid"))}

    def free_space(self) -> int:
        return shutil.disk_usage(self.path).free

    def load(self) -> State:
        """The state; a new one for an empty directory.

        Raises ConfigError for the state of another version or a directory that is no stack, and CorruptState for a
        state that cannot be read.
        """
        where = str(self._state_file)
        reset = f"`enrich dev reset --yes --dir {self.path}` deletes this stack and its data"
        if not self.is_stack():
            if self.is_empty():
                return State()
            what = "the directory holds files, but no stack"
            raise ConfigError(what, where=str(self.path), next_step="choose another one with --dir")
        try:
            content = json.loads(self._state_file.read_bytes())
            version = content["format"]
            if version == FORMAT:
                return State(_SERVERS.validate_python(content["servers"]))
        except (ValueError, TypeError, KeyError) as error:
            what = f"the state of the stack cannot be read: {error!r}"
            raise CorruptState(what, where=where, next_step=reset) from error
        raise ConfigError(
            f"the stack was made by another version of enrich: its format is {version!r}, this one knows {FORMAT}",
            where=where,
            next_step=f"use that version, or another --dir; {reset}",
        )

    def save(self, state: State) -> None:
        """Replaces the state file atomically: a kill at any instant leaves the old or the new one."""
        content = {"format": FORMAT, "servers": {name: asdict(entry) for name, entry in state.servers.items()}}
        # mkstemp creates it with mode 0600: it contains PostgreSQL's password.
        descriptor, temporary = tempfile.mkstemp(prefix=f".{STATE_FILE}.", dir=self.path)
        try:
            with open(descriptor, "w", encoding="utf-8") as file:  # noqa: PTH123 - a descriptor
                json.dump(content, file, indent=2)
            Path(temporary).replace(self._state_file)
        except BaseException:
            with suppress(OSError):
                Path(temporary).unlink()
            raise

    @contextmanager
    def locked(self) -> Iterator[None]:
        """One command at a time works on a stack; others wait. Makes the directory. Raises Retryable after two
        minutes."""
        deadline = time.monotonic() + _LOCK_PATIENCE
        while (lock := self._try_lock()) is None:
            if time.monotonic() >= deadline:
                raise Retryable(
                    "another `enrich dev` command is working on this stack and does not end",
                    where=str(self.path / LOCK_FILE),
                    next_step="wait for it, or stop it, and try again",
                )
            time.sleep(_POLL)
        with lock:
            yield

    def _try_lock(self) -> IO[bytes] | None:
        self.path.mkdir(parents=True, exist_ok=True)
        path = self.path / LOCK_FILE
        # A file object: if Ctrl-C comes before its `with`, it is closed all the same, and the lock is freed.
        lock = path.open("ab")
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.path.samestat(os.fstat(lock.fileno()), path.stat()):
                return lock
        except (BlockingIOError, FileNotFoundError):
            pass  # another command holds it, or `reset` deleted it between the two lines above
        lock.close()
        return None
