"""The recipe of docs/cache.md, run as it stands there against a real Redis, with minutes made short."""

import re
from pathlib import Path
from typing import Any

import pytest

from stores.cache import ABSENT
from tests.support.servers.redis_server import redis_server
from tests.support.waiting import wait_until

PAGE = Path(__file__).parents[3] / "docs" / "cache.md"


@pytest.fixture
def server(tmp_path):
    with redis_server(tmp_path) as server:
        server.start().hset("plans", mapping={f"u{number}": "free" for number in range(5_000)})
        yield server


@pytest.fixture
def serve():
    (text,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert "refresh_s=120" in text
    recipe: dict[str, Any] = {}
    exec(compile(text.replace("refresh_s=120", "refresh_s=0.1"), str(PAGE), "exec"), recipe)  # noqa: S102 - our page
    return recipe["serve"]


def test_all_rows_are_there_before_anybody_asks(server, serve):
    def look(cache):
        rows = cache.get_many(f"u{number}" for number in range(5_000))
        return len(rows), cache.statistics().misses, cache.get("nobody")

    assert serve(server.url, look) == (5_000, 0, ABSENT)


def test_a_changed_row_is_seen_after_the_refresh_and_no_read_waits_for_it(server, serve):
    import redis

    def look(cache):
        redis.Redis.from_url(server.url).hset("plans", "u1", "pro")
        wait_until(lambda: cache.get("u1") == "pro", what="the new plan")
        return cache.statistics().misses

    assert serve(server.url, look) == 0


def test_the_last_rows_are_served_while_the_source_is_away(server, serve):
    def look(cache):
        server.kill()
        wait_until(lambda: cache.get("u1") == "free" and cache.statistics().reload_failures > 0, what="a failed reload")
        return cache.get("u1")

    assert serve(server.url, look) == "free"
