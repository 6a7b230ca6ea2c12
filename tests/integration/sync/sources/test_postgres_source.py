"""A PostgreSQL table becomes a topic: all of it, only what changes, and nothing twice."""

import json
import re
from contextlib import suppress
from pathlib import Path

import psycopg
import pytest

from enrich.service.routes import RouteState
from stores.external.postgres.reading import PostgresSnapshot, TableShape
from tests.support.seed import random_source
from tests.support.servers.postgres_standby import standby_of
from tests.support.sync.sources import SourceWorld, has_read, is_held, repeats
from tests.support.waiting import wait_until


@pytest.mark.parametrize("cursor", [False, True])
def test_the_topic_becomes_the_table_and_follows_it(source: SourceWorld, cursor: bool) -> None:
    source.make_topic()
    source.make_table(rows=1_000)
    if cursor:
        source.with_cursor()
    with source.running():
        source.wait_equal()
        assert source.records() == 1_000
        source.execute("UPDATE {} SET plan = 'new', at = clock_timestamp() WHERE id <= 10")
        source.insert(2_001, 2_005)
        source.wait_equal()
        source.execute("DELETE FROM {} WHERE id BETWEEN 3 AND 5")
        source.wait_equal()
        source.insert(4, 4)
        source.wait_equal()
    assert source.records() == 1_000 + 10 + 5 + 3 + 1
    assert repeats(source.versions()) == []


def test_the_auditor_notices_each_of_twenty_secretly_altered_rows(source: SourceWorld) -> None:
    source.make_topic()
    source.make_table(rows=200)
    source.run_once()
    assert not source.audit()
    before = source.in_topic()
    random = random_source("auditor")
    secrets: list[tuple[bytes, bytes | None]] = []
    altered = {str(number).encode() for number in random.sample(range(1, 201), 20)}
    for key in sorted(altered):
        value = json.loads(before[key])
        way = random.choice(["gone", "plan", "price", "at", "extra"])
        changed = {"plan": "x", "price": 0.1, "at": "2020-01-01T00:00:00+00:00", "extra": None}.get(way)
        secretly = None if way == "gone" else json.dumps({**value, way: changed}).encode()
        secrets.append((key, secretly))
    source.cluster.produce(source.topic, secrets)
    noticed = {re.search(r"b'(\d+)'", finding)[1].encode() for finding in source.audit()}  # type: ignore[index] # each names a key
    assert noticed == altered


def test_a_restart_produces_nothing_and_goes_on_at_the_cursor(source: SourceWorld) -> None:
    source.make_topic()
    source.make_table(rows=500)
    source.execute("UPDATE {} SET at = at - id * interval '1 minute'")
    source.with_cursor(deletes_every="1h")
    assert source.run_once().counters["rows_read"] == 500
    source.execute("UPDATE {} SET plan = 'new', at = clock_timestamp() WHERE id = 7")
    status = source.run_once()
    assert status.counters["rows_read"] <= 2  # the changed one, and the newest before it
    assert status.counters["rows_written"] == 1
    assert source.records() == 501
    assert not source.audit()


@pytest.mark.parametrize("damage", ["lost", "broken", "emptied"])
def test_what_is_known_is_rebuilt_from_the_topic(source: SourceWorld, damage: str) -> None:
    source.make_topic()
    source.make_table(rows=500)
    source.run_once()
    source.execute("UPDATE {} SET plan = 'new' WHERE id = 7")
    source.execute("DELETE FROM {} WHERE id = 8")
    database = source.known / "known"
    for file in database.iterdir():
        if damage == "broken" and file.suffix == ".sst":
            file.write_bytes(file.read_bytes()[:-100])
        elif damage == "lost" or (damage == "emptied" and file.suffix == ".sst"):
            file.unlink()
    status = source.run_once()
    assert not source.audit()
    assert source.records() == 502
    assert status.counters["rebuilds"] == 1


def test_a_table_that_is_loaded_again_while_it_is_read_is_not_taken_for_empty(
    source: SourceWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To a snapshot from before a TRUNCATE it is."""
    source.make_topic()
    source.make_table(rows=50)
    source.run_once()
    shape = PostgresSnapshot.shape

    def after_a_load(self: PostgresSnapshot, table: str) -> TableShape:
        with suppress(psycopg.errors.LockNotAvailable), source.postgres.transaction():  # it waits for the reading
            source.execute("SET LOCAL lock_timeout = '100ms'")
            source.execute("CREATE TEMP TABLE kept ON COMMIT DROP AS SELECT * FROM {}")
            source.execute("TRUNCATE {}")
            source.execute("INSERT INTO {} SELECT * FROM kept")
        return shape(self, table)

    monkeypatch.setattr(PostgresSnapshot, "shape", after_a_load)
    with source.running() as service:
        wait_until(lambda: has_read(service) or is_held(service), what="a reading")
        assert not is_held(service)
    assert not source.audit()


def test_a_topic_recreated_is_filled_again(source: SourceWorld) -> None:
    source.make_topic()
    source.make_table(rows=100)
    source.run_once()
    source.cluster.topics.delete(source.topic)
    wait_until(lambda: not source.cluster.topics.exists(source.topic))
    source.make_topic(partitions=5)
    source.run_once()
    assert not source.audit()
    assert source.records() == 100


def test_what_somebody_else_wrote_is_corrected_by_the_next_whole_reading(source: SourceWorld) -> None:
    source.make_topic()
    source.make_table(rows=100)
    with source.running():
        source.wait_equal()
        source.cluster.produce(source.topic, [(b"3", b'{"id":3}'), (b"9999", b"{}"), (b"4", None)])
        source.wait_equal()
    source.execute("UPDATE {} SET plan = 'x' WHERE id > 50")
    source.run_once()
    assert not source.audit()
    assert source.records() == 100 + 3 + 3 + 50


def test_a_change_that_is_committed_late_is_not_missed(source: SourceWorld) -> None:
    """Its cursor's value is long past when others can see it, longer than the overlap."""
    source.make_topic()
    source.make_table(rows=10)
    source.with_cursor(overlap="0s", deletes_every="0s", whole_every="0s")
    with source.running() as service, psycopg.connect(source.dsn) as late:
        source.wait_equal()
        late.execute(source.filled("UPDATE {} SET plan = 'late', at = clock_timestamp() WHERE id = 1"))
        for number in (2, 3, 4):  # rows with greater values are read meanwhile, again and again
            source.change(number, "early")
            source.wait_equal()
            readings = service.status("in").counters["readings"]
            wait_until(lambda before=readings: service.status("in").counters["readings"] > before + 1)  # type: ignore[misc] # a default binds the loop's value
        late.commit()
        source.wait_equal()
    assert source.records() == 10 + 4


def test_a_change_that_is_committed_late_is_not_missed_on_a_standby_either(source: SourceWorld, tmp_path: Path) -> None:
    source.make_topic()
    source.make_table(rows=10)
    with standby_of(source.dsn, tmp_path) as address:
        source.origin["postgres"]["dsn"] = address
        source.with_cursor(overlap="0s", deletes_every="0s", whole_every="0s")
        with source.running() as service, psycopg.connect(source.dsn) as late:

            def goes_on_for(readings: int) -> None:
                until = service.status("in").counters["readings"] + readings
                wait_until(lambda: service.status("in").counters["readings"] >= until)

            source.wait_equal()
            goes_on_for(70)  # longer than it takes to know from where on to read
            late.execute(source.filled("UPDATE {} SET plan = 'late', at = clock_timestamp() WHERE id = 1"))
            for row in (2, 3):
                source.change(row, "soon")
                source.wait_equal()
                goes_on_for(70)
            late.commit()
            source.wait_equal(60)


def test_rows_that_share_a_cursors_value_are_all_read(source: SourceWorld) -> None:
    source.make_topic()
    source.make_table(rows=10)
    source.with_cursor(deletes_every="0s", whole_every="0s")
    with source.running():
        source.wait_equal()
        source.execute("UPDATE {} SET plan = 'a', at = date_trunc('second', now()) WHERE id <= 5")
        source.wait_equal()
        source.execute("UPDATE {0} SET plan = 'b', at = (SELECT max(at) FROM {0}) WHERE id > 5")
        source.wait_equal()


def test_a_row_that_came_with_an_old_cursor_is_found_by_its_key(source: SourceWorld) -> None:
    source.make_topic()
    source.make_table(rows=10)
    source.with_cursor(whole_every="0s")
    with source.running():
        source.wait_equal()
        source.execute("INSERT INTO {} VALUES (99, 'restored', 1, '2020-01-01')")
        source.wait_equal()


def test_rows_without_a_key_do_not_hide_a_row_that_came_with_an_old_cursor(source: SourceWorld) -> None:
    source.make_topic()
    source.make_table("id bigint UNIQUE, plan text, at timestamptz NOT NULL DEFAULT clock_timestamp()")
    source.execute("INSERT INTO {} VALUES (1, 'first'), (NULL, 'no key'), (NULL, 'no key')")
    source.with_cursor(whole_every="0s")
    with source.running():
        wait_until(lambda: source.in_topic().keys() == {b"1"})
        source.execute("INSERT INTO {} VALUES (99, 'restored', '2020-01-01')")
        wait_until(lambda: source.in_topic().keys() == {b"1", b"99"}, what="the restored row")


def test_a_rejected_row_that_is_deleted_hides_no_other(source: SourceWorld) -> None:
    source.make_topic(max_message_bytes="2000")
    source.make_table(rows=3)
    source.execute("INSERT INTO {} (id, plan) VALUES (50, repeat('x', 5000))")
    source.with_cursor(whole_every="0s")
    with source.running() as service:
        wait_until(lambda: has_read(service))
        with source.postgres.transaction():
            source.execute("DELETE FROM {} WHERE id = 50")
            source.execute("INSERT INTO {} VALUES (99, 'restored', 1, '2020-01-01')")
        source.wait_equal()


def test_a_cursor_that_is_a_number_works_too(source: SourceWorld) -> None:
    source.make_topic()
    source.make_table("id bigint PRIMARY KEY, plan text, version bigserial")
    source.origin["postgres"] |= {"cursor": "version", "overlap": "500ms", "deletes_every": "100ms"}
    source.execute("INSERT INTO {} (id, plan) SELECT n, 'x' FROM generate_series(1, 100) n")
    with source.running() as service:
        source.wait_equal()
        for number in range(1, 6):
            source.execute("UPDATE {} SET plan = 'y', version = DEFAULT WHERE id = %s", number)
            source.wait_equal()
        source.execute("DELETE FROM {} WHERE id = 9")
        source.wait_equal()
        wait_until(lambda: has_read(service))
    assert source.records() == 100 + 5 + 1


def test_columns_that_come_go_and_change_their_type_are_followed(source: SourceWorld) -> None:
    source.make_topic()
    source.make_table(rows=20)
    source.with_cursor(deletes_every="0s", whole_every="0s")
    with source.running():
        source.wait_equal()
        for change in ("ADD score float8 DEFAULT 1.5", "ALTER price TYPE text", "DROP plan", "RENAME price TO cost"):
            source.execute(f"ALTER TABLE {{}} {change}")
            source.wait_equal()
        source.execute("UPDATE {} SET cost = 'x', at = clock_timestamp() WHERE id = 1")
        source.wait_equal()
    assert source.records() == 20 * 5 + 1


def test_a_column_that_is_asked_for_and_missing_ends_the_service_with_its_name(source: SourceWorld) -> None:
    source.make_topic()
    source.make_table(rows=2)
    source.origin["postgres"]["columns"] = ["plam", "id"]
    with source.running() as service:
        error = service.wait_ended()
    assert error is not None and "the table has no column plam" in str(error)
    assert "its columns: id, plan, price, at" in str(error)


@pytest.mark.parametrize(
    ("away", "back", "told"),
    [
        ("DROP plan", "ADD plan text DEFAULT 'new'", "the table has no column plan"),
        ("RENAME TO {0}_aside", None, "there is no such table"),
    ],
)
def test_a_table_that_changes_beneath_a_working_source_holds_it_until_the_table_is_right_again(
    source: SourceWorld, away: str, back: str | None, told: str
) -> None:
    source.make_topic()
    source.make_table(rows=2)
    source.origin["postgres"]["columns"] = ["plan", "id"]
    with source.running() as service:
        wait_until(lambda: has_read(service))
        assert source.in_topic()[b"1"] == b'{"plan":"plan \\"1","id":1}'
        source.execute(f"ALTER TABLE {{0}} {away}")
        wait_until(lambda: is_held(service))
        # A table that goes while it is read is an error of PostgreSQL at first.
        wait_until(lambda: told in str(service.status("in").last_error))
        source.execute(f"ALTER TABLE {{0}} {back}" if back else "ALTER TABLE {0}_aside RENAME TO {0}")
        wait_until(lambda: has_read(service), what="the source to go on")
        source.execute("UPDATE {} SET plan = 'after', at = clock_timestamp() WHERE id = 1")
        wait_until(lambda: source.in_topic()[b"1"] == b'{"plan":"after","id":1}')


def test_composite_keys_are_those_of_lookups(source: SourceWorld) -> None:
    source.make_topic()
    source.make_table("tenant text, n int, v text, PRIMARY KEY (tenant, n)")
    source.execute("INSERT INTO {} VALUES ('a\"b', 1, 'x'), ('é', 2, NULL)")
    source.origin["postgres"] |= {"key": ["tenant", "n"], "columns": ["v"]}
    source.run_once()
    assert source.in_topic() == {b'["a\\"b",1]': b'{"v":"x"}', '["é",2]'.encode(): b'{"v":null}'}


def test_rows_that_cannot_be_records_are_told_and_hold_up_no_others(source: SourceWorld) -> None:
    source.make_topic(max_message_bytes="10000")
    source.make_table("id bigint, plan text")
    source.execute("INSERT INTO {} VALUES (1, 'a'), (NULL, 'b'), (3, repeat('x', 20000)), (4, 'd')")
    status = source.run_once()
    assert source.in_topic().keys() == {b"1", b"4"}
    assert status.gauges["rejected"] == 2
    assert set(status.details["warnings"]) == {
        "1 rows cannot become records: a part of the key is null",
        "1 rows cannot become records: larger than the topic's limit of 9000 bytes",
    }


def test_a_view_that_fails_for_one_row_is_waited_for_until_the_row_is_corrected(source: SourceWorld) -> None:
    source.make_topic()
    source.make_table("id bigint, n int, PRIMARY KEY (id)")
    source.execute("INSERT INTO {} VALUES (1, 1), (2, 2)")
    source.execute("CREATE VIEW {0}_shares AS SELECT id, 100 / n AS share FROM {0}")
    source.origin["postgres"] |= {"table": f"{source.name}_shares"}
    with source.running() as service:
        wait_until(lambda: len(source.in_topic()) == 2)
        source.execute("UPDATE {} SET n = 0 WHERE id = 2")
        wait_until(lambda: service.status("in").state is RouteState.waiting and service.status("in").last_error)
        assert "division by zero" in str(service.status("in").last_error)
        source.execute("UPDATE {} SET n = 4 WHERE id = 2")
        wait_until(lambda: b"25" in source.in_topic()[b"2"], what="the corrected row")


@pytest.mark.parametrize("is_known", [False, True])
def test_a_key_that_two_rows_have_stops_the_source_before_anything_is_produced(
    source: SourceWorld, is_known: bool
) -> None:
    source.make_topic()
    source.make_table("id bigint, plan text")
    source.execute("INSERT INTO {} VALUES (1, 'a'), (2, 'b')")
    if is_known:
        source.run_once()
    before = source.records()
    source.execute("INSERT INTO {} VALUES (3, 'c'), (2, 'd')")
    with source.running() as service:
        wait_until(lambda: service.status("in").state is RouteState.waiting and service.status("in").last_error)
        assert "two rows have the key 2" in str(service.status("in").last_error)
        assert source.records() == before
        source.execute("DELETE FROM {} WHERE plan = 'd'")
        source.wait_equal()


def test_a_topic_that_forgets_by_time_is_refused(source: SourceWorld) -> None:
    source.make_topic(cleanup_policy="compact,delete")
    source.make_table(rows=1)
    with source.running() as service:
        assert "set cleanup.policy=compact" in str(service.wait_ended())
