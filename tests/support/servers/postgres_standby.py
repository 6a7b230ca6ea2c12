"""A standby of the tests' PostgreSQL: a real server that replays what the primary writes, and can be told to wait."""

import os
import pwd
import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psycopg

from enrich.dev.servers.postgres import _find_programs
from tests.support.ports import free_port
from tests.support.waiting import wait_until


@contextmanager
def standby_of(dsn: str, folder: Path) -> Iterator[str]:
    """The address of a hot standby. It ends with the block, and its folder goes."""
    programs, port = _find_programs(), free_port()
    data = folder / "standby"
    data.mkdir(mode=0o700)
    become: list[str] = []
    if os.geteuid() == 0:  # PostgreSQL refuses to run as root; the capability lets it reach a folder below /root
        nobody = pwd.getpwnam("nobody")
        os.chown(data, nobody.pw_uid, nobody.pw_gid)
        become = ["setpriv", f"--reuid={nobody.pw_uid}", f"--regid={nobody.pw_gid}", "--clear-groups"]
        # Without this bit access(2), by which PostgreSQL looks at its own program, knows of no capability.
        become += ["--securebits=+no_setuid_fixup"]
        become += [f"--{kind}-caps=-all,+dac_read_search" for kind in ("inh", "ambient")]
    copy = [str(programs / "pg_basebackup"), "-d", dsn, "-D", str(data), "-R", "-X", "stream", "--checkpoint=fast"]
    subprocess.run([*become, *copy], check=True, capture_output=True, cwd="/", timeout=120)
    settings = {
        "port": str(port),
        "listen_addresses": "127.0.0.1",
        "unix_socket_directories": "",
        "dynamic_shared_memory_type": "mmap",
        "wal_level": "logical",
    }
    arguments = [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
    with (folder / "standby.log").open("wb") as log:
        server = subprocess.Popen(
            [*become, str(programs / "postgres"), "-D", str(data), *arguments], cwd="/", stdout=log, stderr=log
        )
    address = psycopg.conninfo.make_conninfo(dsn, host="127.0.0.1", port=port)

    def answers() -> bool:
        assert server.poll() is None, (folder / "standby.log").read_text()
        with suppress(psycopg.OperationalError), psycopg.connect(address, connect_timeout=5) as connection:
            return bool(connection.execute("SELECT pg_is_in_recovery()").fetchone() == (True,))
        return False

    try:
        wait_until(answers, what="the standby")
        yield address
    finally:
        server.send_signal(signal.SIGINT)  # "fast"
        server.wait(timeout=60)
        shutil.rmtree(data)
