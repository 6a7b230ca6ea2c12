"""A table of PostgreSQL becomes a topic, and the topic rows of Redis and of another table."""

import json
from datetime import datetime
from decimal import Decimal
from random import Random
from typing import Any

from enrich.config import Pipeline, load_text
from tests.support.sync.service import SyncWorld
from tests.support.sync.sources import SourceWorld
from tests.support.waiting import wait_until

_COLUMNS = "id bigint, plan string, price decimal(12,2), at timestamp"
_TABLE = "plan text, price numeric(12,2), at timestamptz"
SCHEMA: dict[str, Any] = {
    "type": "record",
    "name": "row",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "plan", "type": ["null", "string"]},
        {"name": "price", "type": ["null", {"type": "bytes", "logicalType": "decimal", "precision": 12, "scale": 2}]},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-micros"}},
    ],
}
FORMATS: dict[str, dict[str, Any]] = {
    "json": {"format": "json"},
    "avro": {"format": "avro", "schema": json.dumps(SCHEMA)},
}
_TEXTS = ["free", "", None, 'a "quoted" one', "é😀\n\t\\", "null", "{}"]

Row = tuple[Any, ...]


class RoundTrip:
    """A table, its topic, and the two places that the topic is written to."""

    def __init__(
        self, source: SourceWorld, world: SyncWorld, encoding: dict[str, Any], registry: str | None = None
    ) -> None:
        self.source = source
        self.world = world
        self.encoding = encoding
        self.registry = registry
        source.make_topic()
        source.make_table()
        source.with_cursor()
        source.settings |= encoding
        world.make_table(_TABLE)

    def pipeline(self) -> Pipeline:
        data = self.source.data()
        if self.registry is not None:
            data["kafka"]["registry"] = {"url": self.registry}
        back = {"topic": self.source.topic, "columns": _COLUMNS, "retries": [], "reconcile": 0, **self.encoding}
        columns = {name: name for name in ("plan", "price", "at")}
        routes = {"redis": self.world.to_redis(), "table": self.world.to_postgres(columns=columns)}
        data["sync"]["writeback"] = {name: {**back, "to": to} for name, to in routes.items()}
        return load_text(json.dumps(data), {})

    def change(self, random: Random) -> None:
        """Some rows come, some change, some go, some come back: several of it to the same row now and then."""
        ids = [random.randint(1, 60) for _ in range(random.randint(1, 40))]
        for row in ids:
            way = random.random()
            values = (random.choice(_TEXTS), random.choice([None, Decimal(random.randint(-(10**9), 10**9)) / 100]))
            if way < 0.3:
                self.source.execute("DELETE FROM {} WHERE id = %s", row)
            else:
                put = "INSERT INTO {} VALUES (%s, %s, %s, clock_timestamp()) ON CONFLICT (id) DO UPDATE "
                put += "SET plan = excluded.plan, price = excluded.price, at = excluded.at"
                self.source.execute(put, row, *values)

    def right(self) -> dict[str, Row]:
        return {str(row[0]): row for row in self.source.execute("SELECT id, plan, price, at FROM {}")}

    def in_redis(self) -> dict[str, Row]:
        found = {}
        for key, row in self.world.in_redis().items():
            price = row.get("price")
            at = datetime.fromisoformat(row["at"])
            found[key] = (int(row["id"]), row.get("plan"), None if price is None else Decimal(price), at)
        return found

    def in_table(self) -> dict[str, Row]:
        read = f"SELECT id, plan, price, at FROM {self.world.name} WHERE NOT deleted"  # noqa: S608 - our own name
        return {row[0]: (int(row[0]), *row[1:]) for row in self.world.postgres.execute(read)}

    def wait_equal(self) -> None:
        right = self.right()
        wait_until(lambda: self.in_redis() == right, what="Redis with the rows of the table")
        wait_until(lambda: self.in_table() == right, what="the other table with the rows of the first")
