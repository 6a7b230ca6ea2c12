"""From a record's production to its row in the store, at 2,000 rows/s: a reader asks for the next row all the time."""

import json
import statistics
import threading
import time
from collections.abc import Callable
from typing import Any

import psycopg
import redis

from bench.harness import Figures, say
from bench.sync.world import connection, make_topic, service
from enrich.dev import Addresses, temporary_stack
from enrich.kafka import DeliveringProducer

SECONDS = 20
RATE = 2_000
_SAMPLED = 50
_TABLE = """
CREATE TABLE rows (
    id text PRIMARY KEY, plan text, region text, rps bigint, version bigint NOT NULL, deleted boolean NOT NULL)
"""


def run() -> Figures:
    figures: dict[str, float] = {}
    with temporary_stack(["postgres"]) as addresses:
        for store in ("redis", "postgres"):
            say(store)
            times = sorted(_measured(addresses, store))
            figures[f"{store}_p50_ms"] = statistics.median(times)
            figures[f"{store}_p95_ms"] = times[int(len(times) * 0.95)]
            figures[f"{store}_p99_ms"] = times[int(len(times) * 0.99)]
    return figures


def _measured(addresses: Addresses, store: str) -> list[float]:
    topic = f"rows.{store}"
    make_topic(addresses, topic)
    if store == "redis":
        client = redis.Redis.from_url(addresses.redis_url)
        to: dict[str, Any] = {"redis": {"url": addresses.redis_url, "key": "user:{key}"}}

        def is_there(key: str) -> bool:
            return bool(client.exists(f"user:{key}"))
    else:
        database = psycopg.connect(addresses.postgres_dsn or "", autocommit=True)
        database.execute(_TABLE)
        to = {"postgres": {"dsn": addresses.postgres_dsn, "table": "rows", "key": ["id"]}}

        def is_there(key: str) -> bool:
            return database.execute("SELECT 1 FROM rows WHERE id = %s", [key]).fetchone() is not None

    with service(addresses, f"latency-{store}", topic, to):
        return _under_load(addresses, topic, is_there)


def _under_load(addresses: Addresses, topic: str, is_there: Callable[[str], bool]) -> list[float]:
    """Milliseconds from just before a record is handed to the producer until its row is seen."""
    sent: dict[str, float] = {}
    stopping = threading.Event()

    def produce() -> None:
        number, started = 0, time.monotonic()
        with DeliveringProducer(connection(addresses), **{"linger.ms": 0}) as producer:
            while not stopping.is_set():
                for _ in range(10):
                    number += 1
                    value = json.dumps({"plan": "p", "region": "r" * 60, "rps": number}).encode()
                    if number % _SAMPLED == 0:
                        sent[str(number)] = time.monotonic()
                    producer.produce(topic, str(number).encode(), value)
                pause = started + number / RATE - time.monotonic()
                if pause > 0:
                    time.sleep(pause)

    thread = threading.Thread(target=produce)
    thread.start()
    try:
        return _seen(sent, is_there)
    finally:
        stopping.set()
        thread.join()


def _seen(sent: dict[str, float], is_there: Callable[[str], bool]) -> list[float]:
    times: list[float] = []
    number, end = _SAMPLED, time.monotonic() + 120
    warm = 0.0
    while time.monotonic() < end:
        key = str(number)
        if key not in sent or not is_there(key):
            time.sleep(0.001)
            continue
        now = time.monotonic()
        # The first seconds are the start of the service and of its group.
        if not warm and now - sent[key] < 0.2:
            warm = now + 2
        if warm and now > warm:
            times.append((now - sent[key]) * 1000)
            if now > warm + SECONDS:
                return times
        number += _SAMPLED
    raise RuntimeError("the service did not keep up with the load")
