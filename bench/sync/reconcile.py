"""`enrich sync reconcile` of 1 M rows, from the start of the process to its end: a store that has them all, and one
that was emptied, where every row is named. Beside it the same with a tenth of the rows: it has to grow with the rows.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg

from bench.harness import Figures, say
from bench.sync.world import COLUMNS, make_topic, produce
from enrich.base.exits import DIFFERENCE, DONE
from enrich.dev import Addresses, temporary_stack

ROWS = 1_000_000
_TABLE = """
CREATE TABLE {} (
    id text PRIMARY KEY, plan text, region text, rps int, version bigint NOT NULL, deleted boolean NOT NULL)
"""


@dataclass(frozen=True)
class Ran:
    s: float
    cpu_s: float
    peak_mib: float


def run() -> Figures:
    figures: dict[str, float] = {}
    seconds, peaks, ratios = [], [], []
    with temporary_stack(["postgres"]) as addresses:
        for rows in (ROWS // 10, ROWS):
            make_topic(addresses, f"rows{rows}")
            produce(addresses, f"rows{rows}", rows)
        for store in ("redis", "postgres"):
            small, large = (_compared(addresses, store, rows) for rows in (ROWS // 10, ROWS))
            for case, ran in large.items():
                seconds.append(ran.s)
                figures |= {f"{store}_{case}_s": ran.s, f"{store}_{case}_cpu_s": ran.cpu_s}
                peaks.append(ran.peak_mib)
                ratios.append(ran.s / small[case].s)
    return {"s": max(seconds), "peak_mib": max(peaks), "ratio_10x": max(ratios), **figures}


def _compared(addresses: Addresses, store: str, rows: int) -> dict[str, Ran]:
    with _configured(addresses, store, rows) as file:
        emptied = _ran(file, DIFFERENCE, f"{rows:,} differ")
        _ran(file, DONE, "repaired", "--repair")
        equal = _ran(file, DONE, "agrees")
    for case, ran in (("emptied", emptied), ("equal", equal)):
        say(f"{store}, {rows} rows, {case}: {ran.s:.1f} s, of them {ran.cpu_s:.1f} s ours, {ran.peak_mib:.0f} MiB")
    return {"emptied": emptied, "equal": equal}


@contextmanager
def _configured(addresses: Addresses, store: str, rows: int) -> Iterator[Path]:
    name = f"rows{rows}"
    to: dict[str, Any] = {"redis": {"url": addresses.redis_url, "key": f"{name}:{{key}}"}}
    if store == "postgres":
        to = {"postgres": {"dsn": addresses.postgres_dsn, "table": name, "key": ["id"]}}
        with psycopg.connect(addresses.postgres_dsn or "", autocommit=True) as client:
            client.execute(_TABLE.format(name))
    route = {"topic": name, "format": "json", "columns": COLUMNS, "to": to}
    kafka = {"bootstrap_servers": addresses.bootstrap_servers}
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "pipeline.yaml"
        file.write_text(json.dumps({"name": "bench", "kafka": kafka, "sync": {"writeback": {"out": route}}}))
        yield file


def _ran(file: Path, code: int, told: str, *options: str) -> Ran:
    command = [sys.executable, "-m", "sync_service", "reconcile", "-c", str(file), *options]
    began = time.monotonic()
    environment = {**os.environ, "PYTHONPATH": str(Path.cwd())}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as process:
        output = process.stdout.read() if process.stdout is not None else ""
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != code or told not in output:
        raise AssertionError(f"{command} ended with {process.returncode}: {output[:500]}")
    return Ran(time.monotonic() - began, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024)
