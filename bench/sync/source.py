"""A PostgreSQL table of a million rows to a topic: all of it, then one row in a hundred changed, then all compared.

Times are from when the program answers to when its first reading is in the topic, so the start of Python and the first
connections are not measured, and everything else is. The table's changes are spread over a month, as in real life.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg

from bench.harness import Figures, cpu_seconds, peak_mib, say
from bench.sync.world import PARTITIONS, connection
from enrich.dev import Addresses, temporary_stack
from enrich.dev.servers.ports import choose
from enrich.kafka import COMPACTED, Topics, new_admin_client

ROWS = 1_000_000
CHANGED = ROWS // 100
_TABLE = """
    CREATE TABLE users (id bigint PRIMARY KEY, plan text, region text, score numeric(10,2), note text,
        updated_at timestamptz NOT NULL);
    INSERT INTO users SELECT n, 'plan' || n % 5, 'eu-west-' || n % 7, n / 100.0,
        CASE WHEN n % 10 > 0 THEN left(md5(n::text), 20) END, now() - interval '1 month' * random()
        FROM generate_series(1, %(rows)s) n;
    CREATE INDEX ON users (updated_at);
    ANALYZE users;
"""


@dataclass(frozen=True)
class Run:
    seconds: float
    cpu_s: float
    peak_mib: float
    written: int


def run() -> Figures:
    with temporary_stack(["postgres"]) as addresses, tempfile.TemporaryDirectory() as folder:
        Topics(new_admin_client(connection(addresses))).create("users", partitions=PARTITIONS, config=COMPACTED)
        with psycopg.connect(str(addresses.postgres_dsn), autocommit=True) as database:
            database.execute(_TABLE.replace("%(rows)s", str(ROWS)))
            first = _measured(addresses, Path(folder), "updated_at", ROWS)
            database.execute("UPDATE users SET plan = 'new', updated_at = now() WHERE id % 100 = 0")
            second = _measured(addresses, Path(folder), "updated_at", CHANGED)
            whole = _measured(addresses, Path(folder), None, 0)
    return {
        "rows_per_s": ROWS / first.seconds,
        "cpu_us_per_row": first.cpu_s / ROWS * 1e6,
        "second_vs_first_time": second.seconds / first.seconds,
        "whole_again_vs_first_time": whole.seconds / first.seconds,
        "peak_mib": max(first.peak_mib, second.peak_mib, whole.peak_mib),
    }


def _measured(addresses: Addresses, folder: Path, cursor: str | None, expected: int) -> Run:
    """One life of the program, until it has read once and written what differed."""
    postgres = {"dsn": addresses.postgres_dsn, "table": "users", "key": ["id"]}
    with service(addresses, folder, postgres | ({} if cursor is None else {"cursor": cursor})) as (process, url):
        while (status := status_of(url)) is None:
            time.sleep(0.005)
        started, cpu = time.monotonic(), cpu_seconds([process.pid])
        while status is None or status["counters"]["readings"] < 1:
            time.sleep(0.02)
            status = status_of(url)
        seconds = time.monotonic() - started
        written = int(status["counters"]["rows_written"])
        if written != expected:
            raise RuntimeError(f"{written} rows were written instead of {expected}")
        say(f"{written} rows in {seconds:.2f} s")
        return Run(seconds, cpu_seconds([process.pid]) - cpu, peak_mib(process.pid), written)


def status_of(url: str) -> dict[str, Any] | None:
    try:
        with urllib.request.urlopen(url, timeout=5) as answer:  # noqa: S310 - our own service
            (route,) = json.load(answer)["routes"]
            return dict(route)
    except OSError:
        return None


@contextmanager
def service(
    addresses: Addresses, folder: Path, postgres: Mapping[str, Any]
) -> Iterator[tuple["subprocess.Popen[bytes]", str]]:
    """With one source, of a table to the topic `users`."""
    (port,) = choose(1, ())
    source = {"topic": "users", "format": "json", "from": {"postgres": postgres}, "interval": "1h"}
    data = {
        "name": "bench",
        "kafka": {"bootstrap_servers": addresses.bootstrap_servers},
        "state_dir": str(folder / "state"),
        "sync": {"listen": f"127.0.0.1:{port}", "sources": {"in": source}},
    }
    file = folder / "pipeline.yaml"
    file.write_text(json.dumps(data), encoding="utf-8")
    command = [sys.executable, "-m", "sync_service", "-c", str(file), "--log-level", "warning"]
    process = subprocess.Popen(command, env={**os.environ, "PYTHONPATH": str(Path.cwd())})
    try:
        yield process, f"http://127.0.0.1:{port}/status"
    finally:
        process.terminate()
        process.wait(60)
