"""Load on a topic, and an auditor that knows nothing of the service: what stores must hold follows from the topic."""

import json
import random
from contextlib import AbstractContextManager
from typing import Any

from confluent_kafka import Message

from enrich.kafka import DeliveringProducer
from tests.support.kafka.producing import producing
from tests.support.sync.service import SyncWorld
from tests.support.waiting import wait_until

GENERATION = 2**40


def load(world: SyncWorld, source: random.Random, keys: int = 300) -> AbstractContextManager[None]:
    """Rows, changes and tombstones, about a thousand a second, as long as the block runs."""

    def one(producer: DeliveringProducer, number: int) -> None:
        row = {"plan": f"p{number}", "rps": source.randint(0, 9)}
        value = None if source.random() < 0.2 else json.dumps(row).encode()
        producer.produce(world.topic, f"k{source.randrange(keys)}".encode(), value)

    return producing(world.cluster, one)


def expected(world: SyncWorld) -> dict[str, tuple[int, Any, Any]]:
    """Version, plan and rps of every row that is not deleted, by the topic's own order."""
    newest: dict[str, Message] = {}
    for message in world.cluster.messages(world.topic):
        key = str(message.key() or b"", "utf-8")
        before = newest.get(key)
        assert before is None or before.partition() == message.partition(), "a key in two partitions"
        if before is None or (before.offset() or 0) < (message.offset() or 0):
            newest[key] = message
    rows = {}
    for key, message in newest.items():
        value = message.value()
        if value is not None:
            row = json.loads(value)
            rows[key] = (GENERATION + (message.offset() or 0), row["plan"], row["rps"])
    return rows


def audit(world: SyncWorld, deadline_s: float = 180.0) -> None:
    """Both stores come to hold exactly what the topic says."""
    right = expected(world)

    def agree() -> bool:
        return world.rows_in_redis() == right and world.rows_in_postgres() == right

    try:
        wait_until(agree, deadline_s=deadline_s, what="both stores as the topic says")
    except AssertionError:
        redis, postgres = world.rows_in_redis(), world.rows_in_postgres()
        for name, rows in (("Redis", redis), ("PostgreSQL", postgres)):
            wrong = {
                key: (right.get(key), rows.get(key)) for key in right.keys() | rows if right.get(key) != rows.get(key)
            }
            assert not wrong, f"{name}: {len(wrong)} rows differ, such as {dict(list(wrong.items())[:5])}"
        raise
