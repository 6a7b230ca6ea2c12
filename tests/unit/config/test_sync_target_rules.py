"""Two routes never write to one place, and none to where the sync service keeps its own notes."""

from typing import Any

import pytest

from enrich.config.sections.sync.target_rules import RESERVED_KEYS
from stores.external.protocol import NOTES
from tests.unit.config.helpers import changed, told

REDIS = "redis://cache:6379/0"
DSN = "postgresql://me:secret@db/app"


def redis(key: str, url: str = REDIS, **more: Any) -> dict[str, Any]:
    return {"redis": {"url": url, "key": key, **more}}


def postgres(table: str, dsn: str = DSN) -> dict[str, Any]:
    return {"postgres": {"dsn": dsn, "table": table, "key": ["id"]}}


def problems(*targets: dict[str, Any]) -> list[str]:
    route = {"format": "json", "columns": "plan string"}
    routes = {name: {**route, "topic": f"{name}.v1", "to": to} for name, to in zip("ab", targets, strict=False)}
    return [line.removeprefix("sync.writeback.") for line in told(changed(("sync.writeback", routes)))]


@pytest.mark.parametrize(
    ("one", "another", "at"),
    [
        (redis("user:{key}"), redis("user:{key}"), "b.to.redis.key"),
        (redis("user:{key}"), redis("user:{key}:limits"), "b.to.redis.key"),
        (redis("{key}"), redis("user:{key}"), "b.to.redis.key"),
        (redis("user:{key}"), redis("user:{key}", "redis://:pw@CACHE/0"), "b.to.redis.key"),
        (postgres("users"), postgres("users"), "b.to.postgres.table"),
        (postgres("users"), postgres('public."users"', "host=db dbname=app user='other one'"), "b.to.postgres.table"),
        (postgres("users"), postgres("users", "postgresql:///app?host=db&port=5432"), "b.to.postgres.table"),
        (redis("user:{key}"), redis("user:{key}", "redis://cache:6379?db=0"), "b.to.redis.key"),
    ],
)
def test_two_routes_into_one_place_are_refused(one: dict[str, Any], another: dict[str, Any], at: str) -> None:
    (told_,) = problems(one, another)
    assert told_.startswith(f"{at}: ") and "the route a" in told_
    assert "secret" not in told_


@pytest.mark.parametrize(
    ("one", "another"),
    [
        (redis("user:{key}"), redis("limit:{key}")),
        (redis("{key}:users"), redis("{key}:limits")),
        (redis("user:{key}"), redis("user:{key}", "redis://cache:6379/1")),
        (redis("user:{key}"), redis("user:{key}", "redis://other:6379/0")),
        (postgres("users"), postgres("limits")),
        (postgres("users"), postgres("tenant.users")),
        (postgres("users"), postgres("users", "postgresql://me@db/other")),
        (redis("user:{key}"), postgres("user")),
        (redis("user:{key}", "redis://cache?db=1"), redis("user:{key}", "redis://cache?db=2")),
        (postgres("users", "postgresql:///app?host=/run/a"), postgres("users", "postgresql:///app?host=/run/b")),
        (postgres("users", "hostaddr=10.0.0.1 dbname=app"), postgres("users", "hostaddr=10.0.0.2 dbname=app")),
        (postgres("users", "service=one"), postgres("users", "service=other")),
        (postgres("users", "postgresql://ann@db"), postgres("users", "postgresql://bob@db")),
    ],
)
def test_two_places_are_two_places(one: dict[str, Any], another: dict[str, Any]) -> None:
    assert problems(one, another) == []


@pytest.mark.parametrize("key", ["{key}", "enrich:{key}", "enrich:sync:{key}"])
def test_rows_as_text_are_kept_apart_from_the_services_notes(key: str) -> None:
    (told_,) = problems(redis(key, **{"as": "json"}))
    assert told_.startswith("a.to.redis.key: ")


def test_a_hash_may_have_its_records_key_for_a_name() -> None:
    assert problems(redis("{key}")) == []


def test_the_services_own_tables_are_no_targets() -> None:
    (told_,) = problems(postgres("public.enrich_sync_notes"))
    assert told_.startswith("a.to.postgres.table: ")


def test_what_is_kept_apart_is_what_the_stores_keep_apart() -> None:
    assert RESERVED_KEYS == NOTES


def test_records_cannot_go_round_in_a_retry_topic() -> None:
    route = {"format": "json", "columns": "plan string", "retries": ["30s", "30s"], "to": redis("user:{key}")}
    pipeline = changed(("sync.writeback", {"a": {**route, "topic": "a.v1", "dlq": "plays.a.retry.30s.2"}}))
    assert [line for line in told(pipeline) if "a.dlq" in line and "retry topic of the route a" in line]


@pytest.mark.parametrize("timeout", ["500ms", "3m"])
def test_a_write_has_a_time_that_is_neither_too_short_nor_too_long(timeout: str) -> None:
    (told_,) = problems(redis("user:{key}", timeout=timeout))
    assert told_.startswith("a.to.redis.timeout: must be between 1s and 2m")
