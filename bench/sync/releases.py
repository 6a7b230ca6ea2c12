"""What releases cost write-back: one instance writes rows of 100 bytes with versions in headers, in turns without a
release beside them and with one."""

import statistics
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
import redis

from bench.harness import Figures, cpu_seconds, say
from bench.sync.world import ROWS, connection, make_topic, rows_per_second, service, value
from enrich.dev import Addresses, temporary_stack
from enrich.kafka import DeliveringProducer

ROUNDS = 3
STORES, TOPICS = ("redis", "postgres"), ("plain", "released")
_TABLE = """
CREATE TABLE {} (id text PRIMARY KEY, plan text, region text, rps int, version bigint NOT NULL,
                 deleted boolean NOT NULL, release bigint)
"""


def run() -> Figures:
    found: dict[str, list[float]] = {}
    with temporary_stack(["postgres"]) as addresses:
        for topic in TOPICS:
            make_topic(addresses, topic)
            _produce(addresses, topic)
        for number in range(ROUNDS):
            for store in STORES:
                for topic in TOPICS:
                    name = f"{store}_{topic}_{number}"
                    say(name)
                    with (
                        _place(addresses, store, name, topic) as (to, count),
                        service(addresses, name, topic, to) as process,
                    ):
                        rate = rows_per_second(count, ROWS)
                        cost = cpu_seconds([process.pid]) / ROWS * 1e6
                    found.setdefault(f"{store}_{topic}_rows_per_s", []).append(rate)
                    found.setdefault(f"{store}_{topic}_cpu_us_per_row", []).append(cost)
    figures = {name: statistics.median(each) for name, each in found.items()}
    ratios = [figures[f"{store}_released_rows_per_s"] / figures[f"{store}_plain_rows_per_s"] for store in STORES]
    return {"ratio": min(ratios), **figures}


def _produce(addresses: Addresses, topic: str) -> None:
    with DeliveringProducer(connection(addresses)) as producer:
        for number in range(ROWS):
            headers = [("enrich.version", b"%d" % (2**40 + number))]
            headers += [("enrich.release", b"7")] if topic == "released" else []
            producer.produce(topic, b"%d" % number, value(number), headers=headers)


@contextmanager
def _place(
    addresses: Addresses, store: str, name: str, topic: str
) -> Iterator[tuple[dict[str, Any], Callable[[], int]]]:
    """Where a route writes to, and how many rows are there."""
    if store == "redis":
        with redis.Redis.from_url(addresses.redis_url) as cache:
            cache.flushall()
            # One key more than the rows: the note of the route's generation.
            yield {"redis": {"url": addresses.redis_url, "key": "user:{key}"}}, lambda: int(cache.dbsize()) - 1
        return
    with psycopg.connect(addresses.postgres_dsn or "", autocommit=True) as opened:
        client: Any = opened
        client.execute(_TABLE.format(name))
        more = {"release_column": "release"} if topic == "released" else {}
        to = {"postgres": {"dsn": addresses.postgres_dsn, "table": name, "key": ["id"], **more}}
        yield to, lambda: int(client.execute(f"SELECT count(*) FROM {name}").fetchone()[0])  # noqa: S608 - ours
