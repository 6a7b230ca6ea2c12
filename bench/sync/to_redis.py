"""One instance of the sync service writes rows of 100 bytes from a topic to Redis hashes."""

import statistics

import redis

from bench.harness import Figures, cpu_seconds, say
from bench.sync.world import ROWS, make_topic, produce, rows_per_second, service
from enrich.dev import temporary_stack

ROUNDS = 3


def run() -> Figures:
    rates, costs = [], []
    with temporary_stack() as addresses:
        make_topic(addresses, "rows")
        produce(addresses, "rows", ROWS)
        for number in range(ROUNDS):
            say(f"round {number + 1}/{ROUNDS}")
            with redis.Redis.from_url(addresses.redis_url) as client:
                client.flushall()
                to = {"redis": {"url": addresses.redis_url, "key": "user:{key}"}}
                with service(addresses, f"bench{number}", "rows", to) as process:
                    # One key more than the rows: the note of the route's generation.
                    rates.append(rows_per_second(lambda c=client: int(c.dbsize()) - 1, ROWS))  # type: ignore[misc] # a default binds the loop's value
                    costs.append(cpu_seconds([process.pid]) / ROWS * 1e6)
                if client.hget(f"user:{ROWS - 1}", "rps") != str(ROWS - 1).encode():
                    raise RuntimeError("the last row is not the one that was produced")
    return {"rows_per_s": statistics.median(rates), "cpu_us_per_row": statistics.median(costs)}
