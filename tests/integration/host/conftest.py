import json
from collections.abc import Callable

import pytest

from enrich.config import load
from tests.support.host.ending import stop_agent_of


@pytest.fixture
def users_topic(new_topic):
    return new_topic(partitions=2, cleanup_policy="compact")


@pytest.fixture
def config(stack, users_topic, tmp_path):
    """A pipeline's file with one table; its agent is stopped at the end."""
    path = tmp_path / "pipeline.yaml"
    path.write_text(
        f"name: test\nkafka: {{bootstrap_servers: '{stack.bootstrap_servers}'}}\nstate_dir: {tmp_path}/state\n"
        f"tables:\n  users: {{topic: {users_topic}, format: json, columns: 'plan string, rps int', history: 1h}}\n"
    )
    yield path
    stop_agent_of(load(path))


@pytest.fixture
def produce_users(cluster, users_topic) -> Callable[..., None]:
    def produce(**rows):
        values = {key: None if row is None else json.dumps(row).encode() for key, row in rows.items()}
        cluster.produce(users_topic, [(key.encode(), value) for key, value in values.items()])

    return produce
