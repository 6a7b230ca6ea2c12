"""What a route may be told about the place of its rows: how long they live, which columns, keys and types they have."""

from contextlib import closing
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

from stores.external import PostgresLocation, PostgresStore
from sync_service.reconcile import Reconciliation
from sync_service.writeback.plan import plans_of
from sync_service.writeback.route import Clients
from tests.contract.external.places import rows
from tests.support.sync.service import SyncWorld, running
from tests.support.waiting import wait_until


def test_rows_of_redis_live_for_their_time_and_none_that_came_to_its_end_is_missed(world: SyncWorld) -> None:
    world.make_topic()
    pipeline = world.pipeline(world.to_redis(ttl="1h"))
    world.produce(("a", {"plan": "x", "rps": 1}), ("b", {"plan": "x", "rps": 2}))
    with running(pipeline):
        wait_until(lambda: world.in_redis().keys() == {"a", "b"}, what="the rows")
        assert 3_500 < world.redis.ttl(f"{world.name}:a") <= 3_600
        world.redis.expire(f"{world.name}:a", 60)
        world.produce(("a", {"plan": "y", "rps": 1}))
        wait_until(lambda: world.redis.ttl(f"{world.name}:a") > 3_500, what="a new life")
    world.redis.delete(f"{world.name}:b")  # as Redis does when the time has come
    world.redis.hset(f"{world.name}:a", "plan", "altered")
    report = Reconciliation(plans_of(pipeline)[0], Clients(pipeline)).run(repair=False)
    assert [one.key for one in report.differences] == [b"a"]


def test_a_table_has_names_keys_and_types_of_its_own(world: SyncWorld) -> None:
    world.make_topic()
    name = f"{world.name}.limits"
    world.postgres.execute(f"CREATE SCHEMA {world.name}")
    world.postgres.execute(
        f"CREATE TABLE {name} (tenant text, number int, plan varchar(20), price numeric(10,2), at timestamptz, "
        "born date, tags text[], more jsonb, is_on boolean, seen bigint, gone boolean DEFAULT false, "
        "PRIMARY KEY (tenant, number))"
    )
    given = {
        "name": 'a "b" \\ c',
        "price": 12.3,
        "at": "2026-01-31T10:00:00.5Z",
        "born": "2000-02-29",
        "tags": ["x", None, 'y"{},'],
        "more": {"rps": 5},
        "is_on": True,
    }
    columns = "name string, price decimal(10,2), at timestamp, born date, tags array<string>, more struct<rps:int>"
    mapping = {"plan": "name", **{column: column for column in ("price", "at", "born", "tags", "more", "is_on")}}
    place = {"dsn": world.servers.postgres_dsn, "table": name, "key": ["tenant", "number"], "columns": mapping}
    to = {"postgres": {**place, "version_column": "seen", "deleted_column": "gone"}}
    world.produce(('["eu",5]', given), ('["é",-1]', dict.fromkeys(given)), ('["eu",6]', given), ("no array", given))
    pipeline = world.pipeline(to, columns=f"{columns}, is_on boolean")
    with running(pipeline):
        letters = wait_until(world.dead_letters, what="the key that is none")
        world.produce(('["eu",6]', None))
        wait_until(lambda: living(world, name).keys() == {("eu", 5), ("é", -1)}, what="the rows")
    assert [letter["enrich.reason"] for letter in letters.values()] == [
        "the key is not a JSON array of 2 texts or numbers"
    ]
    at = datetime(2026, 1, 31, 10, 0, 0, 500_000, UTC)
    right = (given["name"], Decimal("12.30"), at, date(2000, 2, 29), given["tags"], given["more"], True)
    assert living(world, name) == {("eu", 5): right, ("é", -1): (None,) * 7}
    assert Reconciliation(plans_of(pipeline)[0], Clients(pipeline)).run(repair=False).differences == []


def living(world: SyncWorld, table: str) -> dict[tuple[str, int], tuple[Any, ...]]:
    read = f"SELECT tenant, number, plan, price, at, born, tags, more, is_on FROM {table} WHERE NOT gone"  # noqa: S608
    return {row[:2]: row[2:] for row in world.postgres.execute(read)}


def test_removed_keys_are_remembered_for_their_time_and_then_forgotten(world: SyncWorld) -> None:
    world.make_table(soft=False)
    dsn = world.servers.postgres_dsn or ""
    columns = {"plan": "plan", "rps": "rps"}
    counted = "SELECT key FROM enrich_sync_markers WHERE target = %s"
    for marker_ms, kept in ((3_600_000, {b"a"}), (1, {b"a", b"b"}), (3_600_000, {b"a", b"c"})):
        key = {1: "b"}.get(marker_ms, "a" if kept == {b"a"} else "c")
        place = PostgresLocation(world.name, ["id"], columns, deleted_column=None, marker_ms=marker_ms)
        with closing(PostgresStore(dsn, place)) as store:
            store.write(rows((key, 5, None)))
        assert {row[0] for row in world.postgres.execute(counted, [world.name])} == kept
