from collections.abc import Iterator

import pytest

from tests.support.servers.redis_server import RedisServer, redis_server
from tests.support.stores.directories import fast_directory


@pytest.fixture
def server(tmp_path) -> Iterator[RedisServer]:
    """A Redis of this test's own."""
    with redis_server(tmp_path) as server:
        yield server


@pytest.fixture
def folder():
    """Where the agent's store is."""
    with fast_directory() as directory:
        yield directory
