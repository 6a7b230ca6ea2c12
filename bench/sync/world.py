"""What the benchmarks of the sync service share: a topic of rows of 100 bytes, and the service as a process."""

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from enrich.dev import Addresses
from enrich.kafka import COMPACTED, DeliveringProducer, Topics, new_admin_client

PARTITIONS = 4
ROWS = 300_000
COLUMNS = "plan string, region string, rps int"


def value(number: int) -> bytes:
    """100 bytes of JSON."""
    row = {"plan": f"plan-{number % 7}", "region": "", "rps": number}
    row["region"] = "r" * (100 - len(json.dumps(row)))
    return json.dumps(row).encode()


def make_topic(addresses: Addresses, topic: str) -> None:
    Topics(new_admin_client(connection(addresses))).create(topic, partitions=PARTITIONS, config=COMPACTED)


def produce(addresses: Addresses, topic: str, rows: int) -> None:
    with DeliveringProducer(connection(addresses)) as producer:
        for number in range(rows):
            producer.produce(topic, b"%d" % number, value(number))


def connection(addresses: Addresses) -> dict[str, Any]:
    return {"bootstrap.servers": addresses.bootstrap_servers}


@contextmanager
def service(addresses: Addresses, name: str, topic: str, to: dict[str, Any]) -> Iterator[subprocess.Popen[bytes]]:
    """One instance of the sync service with one route, stopped after the block."""
    route = {"topic": topic, "format": "json", "columns": COLUMNS, "to": to}
    sync = {"listen": "127.0.0.1:0", "writeback": {"out": route}}
    data = {"name": name, "kafka": {"bootstrap_servers": addresses.bootstrap_servers}, "sync": sync}
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "pipeline.yaml"
        file.write_text(json.dumps(data), encoding="utf-8")
        command = [sys.executable, "-m", "sync_service", "-c", str(file), "--log-level", "warning"]
        process = subprocess.Popen(command, env={**os.environ, "PYTHONPATH": str(Path.cwd())})
        try:
            yield process
        finally:
            process.terminate()
            process.wait(30)


def rows_per_second(count: Callable[[], int], rows: int, deadline_s: float = 120.0) -> float:
    """From the first hundredth of the rows to the last one: the start of the process is not what is measured."""
    end = time.monotonic() + deadline_s
    began: tuple[float, int] | None = None
    while True:
        now, there = time.monotonic(), count()
        if began is None and there >= rows // 100:
            began = now, there
        if there >= rows and began is not None:
            return (rows - began[1]) / (now - began[0])
        if now > end:
            raise RuntimeError(f"only {there} of {rows} rows after {deadline_s:g} s")
        time.sleep(0.02)
