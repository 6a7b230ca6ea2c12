"""The examples are good files, and what examples/sync.yaml says is what happens on real servers."""

from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import psycopg
import pytest
import redis

from enrich.config import load, load_text
from enrich.dev import Addresses, temporary_stack
from tests.support.kafka.topics import Cluster
from tests.support.sync.service import running
from tests.support.waiting import wait_until

EXAMPLES = Path(__file__).parents[3] / "examples"


@pytest.mark.parametrize("name", sorted(path.name for path in EXAMPLES.glob("*.yaml")))
def test_every_example_is_a_good_file(name: str) -> None:
    load(EXAMPLES / name)


def new_database(servers: Addresses, name: str, table: str, held: ExitStack) -> tuple[str, Any]:
    """With a table `users`."""
    with psycopg.connect(servers.postgres_dsn or "", autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}")
    dsn = f"{(servers.postgres_dsn or '').rpartition('/')[0]}/{name}"
    database = held.enter_context(psycopg.connect(dsn, autocommit=True))
    database.execute(f"CREATE TABLE users ({table})")
    return dsn, database


def test_the_routes_of_the_example_run(tmp_path: Path) -> None:
    with ExitStack() as held:
        # Of its own: the example's topics, keys and databases have names that others may have too.
        servers = held.enter_context(temporary_stack(["postgres"], quiet=True))
        columns = "id bigint PRIMARY KEY, plan text, region text, updated_at timestamptz DEFAULT clock_timestamp()"
        shop_dsn, shop = new_database(servers, "shop", columns, held)
        columns = "id text PRIMARY KEY, plan text, version bigint, deleted boolean"
        copies_dsn, copies = new_database(servers, "copies", columns, held)
        cache: Any = held.enter_context(closing(redis.Redis.from_url(servers.redis_url or "", decode_responses=True)))
        bootstrap = servers.bootstrap_servers or ""
        Cluster({"bootstrap.servers": bootstrap}).topics.create(
            "users.v1", partitions=3, config={"cleanup.policy": "compact"}
        )
        shop.execute("INSERT INTO users SELECT n, 'free', 'eu' FROM generate_series(1, 20) n")
        # Shorter pauses: both sides are to be seen to follow.
        text = (EXAMPLES / "sync.yaml").read_text().replace("interval: 10s", "interval: 100ms")
        text = text.replace("./state", str(tmp_path))
        addresses = {"KAFKA_BOOTSTRAP_SERVERS": bootstrap, "REDIS_URL": servers.redis_url or ""}
        pipeline = load_text(text, {**addresses, "PG": shop_dsn, "PG_COPY": copies_dsn})

        def copied() -> dict[str, str]:
            return dict(copies.execute("SELECT id, plan FROM users WHERE NOT deleted").fetchall())

        with running(pipeline):
            wait_until(lambda: copied() == {str(n): "free" for n in range(1, 21)}, what="the copies")
            wait_until(lambda: len(cache.keys("user:*")) == 20, what="the rows in Redis")
            shop.execute("UPDATE users SET plan = 'pro', updated_at = clock_timestamp() WHERE id = 7")
            wait_until(lambda: copied()["7"] == "pro", what="the change in the copies")
            wait_until(lambda: cache.hget("user:7", "plan") == "pro", what="the change in Redis")
            assert cache.hget("user:7", "region") == "eu"
