"""A PostgreSQL table to a topic by the change log: a first comparison, small transactions, a steady load, one
transaction of a million rows, and small transactions by Debezium's engine.

`changes_per_s` is per second of the program's processor time: the wall time has PostgreSQL's and the broker's in it, as
they share the machine. Delays are from when a row was written in PostgreSQL until a consumer has it, committed, and
until a worker's reader has it from the agent.
"""

import json
import tempfile
import threading
import time
from contextlib import closing
from pathlib import Path

import numpy as np
import psycopg
from confluent_kafka import Consumer

from bench.harness import Figures, cpu_seconds, peak_mib, say
from bench.java.debezium_engine import debezium
from bench.kit.agents import remove_agent, wait_until_alive, wait_until_ready
from bench.sync.cdc_reader import ROWS_EACH, WorkersReader, ms
from bench.sync.source import service, status_of
from bench.sync.world import PARTITIONS, connection
from enrich.config import load
from enrich.dev import Addresses, temporary_stack
from enrich.kafka import COMPACTED, Topics, new_admin_client

ROWS, CHANGES, STEADY_S = 1_000_000, 500_000, 15
_TABLE = """
    CREATE TABLE users (id bigint PRIMARY KEY, plan text, region text, score numeric(10,2), note text,
        at timestamptz NOT NULL DEFAULT now());
    INSERT INTO users SELECT n, 'plan' || n % 5, 'eu-west-' || n % 7, n / 100.0,
        CASE WHEN n % 10 > 0 THEN left(md5(n::text), 20) END FROM generate_series(1, 1000000) n;
    ANALYZE users;
"""
_SMALL = """
    DO $$ BEGIN FOR n IN 0..4999 LOOP
        UPDATE users SET plan = 'small' WHERE id > n * 100 AND id <= n * 100 + 100; COMMIT;
    END LOOP; END $$
"""
_STEADY = "UPDATE users SET plan = %s, at = clock_timestamp() WHERE id > %s AND id <= %s"


def run() -> Figures:
    with temporary_stack(["postgres"]) as addresses, tempfile.TemporaryDirectory() as folder:
        topics = Topics(new_admin_client(connection(addresses)))
        topics.create("users", partitions=PARTITIONS, config=COMPACTED)
        origin = {"dsn": addresses.postgres_dsn, "table": "users", "key": ["id"], "follow": "log"}
        with psycopg.connect(str(addresses.postgres_dsn), autocommit=True) as database:
            database.execute(_TABLE)
            with service(addresses, Path(folder), origin) as (process, url):
                while (status := status_of(url)) is None:
                    time.sleep(0.005)
                began = time.monotonic()
                while status is None or status["counters"]["readings"] < 1:
                    time.sleep(0.02)
                    status = status_of(url)
                snapshot_s = time.monotonic() - began
                say(f"compared in {snapshot_s:.1f} s")
                small, small_cpu = _until_written(database, process.pid, url, _SMALL, CHANGES)
                say(f"{CHANGES:,} changes in {small:.1f} s, {small_cpu:.1f} s of processor time")
                delays = _until_in_topic(addresses, database)
                to_reader = _until_in_reader(addresses, database, Path(folder))
                peak = peak_mib(process.pid)
                Path(f"/proc/{process.pid}/clear_refs").write_text("5", encoding="ascii")  # the peak begins anew
                large, large_cpu = _until_written(database, process.pid, url, "UPDATE users SET plan = 'large'", ROWS)
                say(f"a transaction of {ROWS:,} in {large:.1f} s, {large_cpu:.1f} s of processor time")
                large_peak = peak_mib(process.pid)
                warm_cpu = _until_written(database, process.pid, url, _SMALL, CHANGES)[1]
                figures = {
                    "changes_per_s": CHANGES / small_cpu,
                    "changes_per_wall_s": CHANGES / small,
                    "large_changes_per_s": ROWS / large_cpu,
                    "snapshot_rows_per_s": ROWS / snapshot_s,
                    "commit_to_topic_p50_ms": float(np.quantile(delays, 0.5)),
                    "commit_to_topic_p95_ms": float(np.quantile(delays, 0.95)),
                    "commit_to_reader_p50_ms": float(np.quantile(to_reader, 0.5)),
                    "commit_to_reader_p95_ms": float(np.quantile(to_reader, 0.95)),
                    "peak_mib": peak,
                    "transaction_peak_mib": large_peak,
                }
            return figures | {"vs_debezium": _debezium_cpu(addresses, database, topics, Path(folder)) / warm_cpu}


def _until_written(
    database: psycopg.Connection, pid: int, url: str, statement: str, changes: int
) -> tuple[float, float]:
    """Seconds, and of those the program's processor time, until it has written so many more records."""
    before, cpu, began = _written(url), cpu_seconds([pid]), time.monotonic()
    database.execute(statement)
    while _written(url) < before + changes:
        time.sleep(0.02)
    return time.monotonic() - began, cpu_seconds([pid]) - cpu


def _debezium_cpu(addresses: Addresses, database: psycopg.Connection, topics: Topics, folder: Path) -> float:
    """Seconds of processor time for the same changes, after as many that warm its compiler up."""
    topics.create("peer", partitions=PARTITIONS, config=COMPACTED)
    brokers = addresses.bootstrap_servers
    with debezium(str(addresses.postgres_dsn), "users", brokers, "peer", folder) as pid:
        for turn in range(2):
            cpu, began = cpu_seconds([pid]), time.monotonic()
            database.execute(_SMALL)
            while sum(topics.end_offsets("peer").values()) < (turn + 1) * CHANGES:
                time.sleep(0.02)
            used = cpu_seconds([pid]) - cpu
            say(f"Debezium: {CHANGES:,} changes in {time.monotonic() - began:.1f} s, {used:.1f} s of processor time")
    return used


def _written(url: str) -> int:
    status = status_of(url)
    return 0 if status is None else int(status["counters"]["rows_written"])


def _until_in_topic(addresses: Addresses, database: psycopg.Connection) -> list[float]:
    """Milliseconds from the write in PostgreSQL until a consumer has it."""
    delays: list[float] = []
    stopping = threading.Event()
    settings = {**connection(addresses), "group.id": "bench", "auto.offset.reset": "latest", "fetch.wait.max.ms": 10}
    consumer = Consumer({**settings, "isolation.level": "read_committed", "enable.auto.commit": False})

    def consume() -> None:
        with closing(consumer):
            consumer.subscribe(["users"])
            while not stopping.is_set():
                for message in consumer.consume(500, 0.05):
                    row = json.loads(message.value() or b"{}")
                    if str(row.get("plan", "")).startswith("topic"):
                        delays.append(time.time() * 1000 - ms(row["at"]))

    thread = threading.Thread(target=consume)
    thread.start()
    _write_steadily(database, "topic")
    stopping.set()
    thread.join()
    say(f"{len(delays):,} delays to the topic")
    return delays[len(delays) // 5 :]  # the consumer's group took its time


def _until_in_reader(addresses: Addresses, database: psycopg.Connection, folder: Path) -> list[float]:
    """Milliseconds from the write in PostgreSQL until a worker's reader has it."""
    path = folder / "readers.yaml"
    path.write_text(
        f"name: readers\nkafka: {{bootstrap_servers: '{addresses.bootstrap_servers}'}}\nstate_dir: {folder / 'agent'}\n"
        'tables: {users: {topic: users, format: json, columns: "plan string, at string"}}\n',
        encoding="utf-8",
    )
    pipeline = load(path)
    wait_until_alive(pipeline)
    try:
        wait_until_ready(pipeline)
        reader = WorkersReader(pipeline)
        _write_steadily(database, "reader")
        delays = reader.delays()
    finally:
        remove_agent(pipeline)
    say(f"{len(delays):,} delays to the reader")
    if len(delays) < STEADY_S * 50:
        raise RuntimeError("the reader did not see all transactions")
    return delays


def _write_steadily(database: psycopg.Connection, plan: str) -> None:
    """5,000 changes a second, in transactions of a hundred."""
    began = time.monotonic()
    for number in range(STEADY_S * 50):
        time.sleep(max(0.0, began + number / 50 - time.monotonic()))
        first = number * ROWS_EACH % ROWS
        database.execute(_STEADY, [f"{plan}{number}", first, first + ROWS_EACH])
    time.sleep(1)
