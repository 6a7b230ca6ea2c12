"""The Debezium peer of `cdc`: its engine follows a table's change log, and a producer writes the rows to a topic."""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
from psycopg.conninfo import conninfo_to_dict

from bench.java.peers import FOR_THROUGHPUT, compiled

_SLOT = "peer"
_ACTIVE = "SELECT 1 FROM pg_replication_slots WHERE slot_name = %s AND active"
_DROP = "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE slot_name = %s"


@contextmanager
def debezium(dsn: str, table: str, bootstrap_servers: str, topic: str, folder: Path) -> Iterator[int]:
    """Yields the process's id. What the log has from then on is written."""
    at = conninfo_to_dict(dsn)
    place = [str(at.get(name) or "") for name in ("host", "port", "dbname", "user", "password")]
    program = [*compiled("debezium", folder), *FOR_THROUGHPUT, "FollowTable"]
    command = [*program, *place, f"public.{table}", _SLOT, bootstrap_servers, topic, str(folder / "offsets")]
    with psycopg.connect(dsn, autocommit=True) as database:
        try:
            with subprocess.Popen(command, stdin=subprocess.PIPE) as process:
                while not database.execute(_ACTIVE, [_SLOT]).fetchone():
                    if process.poll() is not None:
                        raise RuntimeError("Debezium ended before it followed the log")
                yield process.pid
                process.communicate(timeout=60)
        finally:
            database.execute(_DROP, [_SLOT])
