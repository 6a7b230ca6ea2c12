"""One instance of the sync service writes rows of 100 bytes from a topic to a PostgreSQL table."""

import statistics
from typing import Any

import psycopg

from bench.harness import Figures, cpu_seconds, say
from bench.sync.world import ROWS, make_topic, produce, rows_per_second, service
from enrich.dev import temporary_stack

ROUNDS = 3
_TABLE = """
CREATE TABLE {} (
    id text PRIMARY KEY, plan text, region text, rps int, version bigint NOT NULL, deleted boolean NOT NULL)
"""


def run() -> Figures:
    rates, costs = [], []
    with temporary_stack(["postgres"]) as addresses:
        make_topic(addresses, "rows")
        produce(addresses, "rows", ROWS)
        for number in range(ROUNDS):
            say(f"round {number + 1}/{ROUNDS}")
            table = f"rows{number}"
            with psycopg.connect(addresses.postgres_dsn or "", autocommit=True) as client:
                client.execute(_TABLE.format(table))
                to = {"postgres": {"dsn": addresses.postgres_dsn, "table": table, "key": ["id"]}}

                def count(client: Any = client, table: str = table) -> int:
                    return int(client.execute(f"SELECT count(*) FROM {table}").fetchone()[0])  # noqa: S608 - ours

                with service(addresses, f"bench{number}", "rows", to) as process:
                    rates.append(rows_per_second(count, ROWS))
                    costs.append(cpu_seconds([process.pid]) / ROWS * 1e6)
    return {"rows_per_s": statistics.median(rates), "cpu_us_per_row": statistics.median(costs)}
