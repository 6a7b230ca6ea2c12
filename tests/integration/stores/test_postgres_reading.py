"""A real PostgreSQL's tables as Arrow: every type, one moment, and no wait without an end."""

import math
import os
from datetime import UTC, date, datetime
from decimal import Decimal

import psycopg
import psycopg.sql
import pyarrow as pa
import pytest

from stores.errors import ConfigError, Retryable, Unreachable
from stores.external.postgres.reading import PostgresReader
from stores.json_text import is_json_text
from tests.support.waiting import wait_until

COLUMNS = {
    '"a ""b"': "text",
    "yes": "boolean",
    "small": "smallint",
    "single": "real",
    "double": "float8",
    "money": "numeric(10,2)",
    "number": "numeric",
    "large": "numeric(40,2)",
    "raw": "bytea",
    "day": "date",
    "local": "timestamp",
    "moment": "timestamptz",
    "doc": "jsonb",
    "list": "int[]",
    "texts": "text[]",
    "pair": "reading_pair",
    "mood": "reading_mood",
    "positive": "reading_positive",
    "uid": "uuid",
    "span": "interval",
    "net": "inet",
}
FULL = """('x,"y"' || chr(10) || '\\.', true, -3, 0.1, 1e300, 1.5, 1e40, 12.30, '\\x00ff', '2026-01-31',
    '2026-01-31 10:00:00.5', '2026-01-31 10:00+02', '{"b": [1, null]}', '{1,null}', '{"x","y z"}', (1,'q"'), 'so so',
    7, '5b8d5c3e-0000-0000-0000-000000000001', '1 day 2 hours', '10.0.0.1/8')"""
STRANGE = """('', false, 0, 'NaN', '-Infinity', 'NaN', 'Infinity', NULL, '', 'infinity', '0044-03-15 BC',
    '12026-01-01 00:00+00', 'null', '{}', '{"NULL",""}', NULL, NULL, NULL, NULL, NULL, NULL)"""


@pytest.fixture(scope="module")
def dsn(servers):
    with psycopg.connect(servers.postgres_dsn, autocommit=True) as database:
        database.execute("CREATE TYPE reading_pair AS (n int, t text)")
        database.execute("CREATE TYPE reading_mood AS ENUM ('so so')")
        database.execute("CREATE DOMAIN reading_positive AS int CHECK (VALUE > 0)")
        database.execute(f'CREATE TABLE "Odd types" ({", ".join(f"{n} {t}" for n, t in COLUMNS.items())})')
        nulls = f"({', '.join(['NULL'] * len(COLUMNS))})"
        database.execute(f'INSERT INTO "Odd types" VALUES {FULL}, {STRANGE}, {nulls}')  # noqa: S608 - our own
        # The server's and the user's own ways of writing must not matter.
        database.execute("ALTER ROLE CURRENT_USER SET DateStyle = 'German'")
        database.execute("ALTER ROLE CURRENT_USER SET TimeZone = 'Asia/Kolkata'")
        database.execute("ALTER ROLE CURRENT_USER SET bytea_output = 'escape'")
        yield servers.postgres_dsn
        database.execute("ALTER ROLE CURRENT_USER RESET ALL")


def read(dsn, table, columns=None, **more):
    with PostgresReader(dsn).snapshot() as snapshot:
        shape = snapshot.shape(table)
        names = columns or [column.name for column in shape.columns]
        return pa.Table.from_batches(
            snapshot.rows(shape, names, **more), pa.schema(c.field for c in shape.select(names))
        )


def test_every_type_has_its_arrow_type_and_its_value(dsn):
    table = read(dsn, '"Odd types"')
    full, strange, nulls = table.to_pylist()
    assert full == {
        'a "b': 'x,"y"\n\\.',
        "yes": True,
        "small": -3,
        "single": pytest.approx(0.1),
        "double": 1e300,
        "money": Decimal("1.50"),
        "number": "1" + "0" * 40,
        "large": "12.30",
        "raw": b"\x00\xff",
        "day": date(2026, 1, 31),
        "local": datetime(2026, 1, 31, 10, 0, 0, 500_000),
        "moment": datetime(2026, 1, 31, 8, tzinfo=UTC),
        "doc": '{"b": [1, null]}',
        "list": "[1,null]",
        "texts": '["x","y z"]',
        "pair": '{"n":1,"t":"q\\""}',
        "mood": "so so",
        "positive": 7,
        "uid": "5b8d5c3e-0000-0000-0000-000000000001",
        "span": "P1DT2H",
        "net": "10.0.0.1/8",
    }
    assert math.isnan(strange["single"]) and strange["double"] == -math.inf
    assert {name for name, value in strange.items() if value is not None} == {
        *('a "b', "yes", "small", "single", "double", "raw", "doc", "list", "texts")
    }
    assert (strange['a "b'], strange["raw"], strange["texts"]) == ("", b"", '["NULL",""]')
    assert set(nulls.values()) == {None}
    assert {field.name for field in table.schema if is_json_text(field)} == {
        *("number", "large", "doc", "list", "texts", "pair")
    }
    assert table.schema.field("money").type == pa.decimal128(10, 2)
    assert table.schema.field("moment").type == pa.timestamp("us", "UTC")


def test_a_reading_is_as_of_one_moment_and_tells_who_wrote_meanwhile(dsn):
    with psycopg.connect(dsn, autocommit=True) as database, psycopg.connect(dsn) as late:
        database.execute("CREATE TABLE one_moment (id int PRIMARY KEY, n int)")
        database.execute("INSERT INTO one_moment SELECT g, g FROM generate_series(1, 200000) g")
        late.execute("UPDATE one_moment SET n = 0 WHERE id = 1")
        (row,) = late.execute("SELECT floor(extract(epoch FROM now()) * 1000)::bigint")
        begun = row[0]
        with PostgresReader(dsn).snapshot() as snapshot:
            assert snapshot.moment.oldest_transaction_ms <= begun <= snapshot.moment.now_ms <= snapshot.taken_ms
            shape = snapshot.shape("one_moment")
            assert (shape.unique, shape.first_in_index) == ((frozenset({"id"}),), frozenset({"id"}))
            batches = snapshot.rows(shape, ["n"])
            first = next(batches)
            database.execute("DELETE FROM one_moment WHERE id > 100")
            late.commit()
            assert snapshot.newest(shape, "id") == "200000"
            total = sum(sum(batch.column(0).to_pylist()) for batch in [first, *snapshot.rows(shape, ["n"])])
        assert total >= 200_000 * 200_001 // 2


def test_the_transaction_of_a_worker_that_applies_anothers_changes_counts(dsn):
    """It waits in a trigger for a session that has no transaction itself."""
    elsewhere = psycopg.conninfo.make_conninfo(dsn, dbname="applied_from")
    waiting = (
        "SELECT floor(extract(epoch FROM xact_start) * 1000)::bigint FROM pg_stat_activity "
        "WHERE wait_event = 'advisory' AND backend_type LIKE 'logical%'"
    )
    with psycopg.connect(dsn, autocommit=True) as database, psycopg.connect(dsn, autocommit=True) as holder:
        database.execute("CREATE DATABASE applied_from")
        try:
            with psycopg.connect(elsewhere, autocommit=True) as other:
                other.execute("CREATE TABLE applied (id int PRIMARY KEY)")
                other.execute("CREATE PUBLICATION applied FOR TABLE applied")
                other.execute("SELECT pg_create_logical_replication_slot('applied', 'pgoutput')")
            database.execute("CREATE TABLE applied (id int PRIMARY KEY)")
            database.execute(
                "CREATE FUNCTION waits() RETURNS trigger LANGUAGE plpgsql AS "
                "'BEGIN PERFORM pg_advisory_xact_lock(7731); RETURN NEW; END'"
            )
            database.execute("CREATE TRIGGER waits BEFORE INSERT ON applied FOR EACH ROW EXECUTE FUNCTION waits()")
            database.execute("ALTER TABLE applied ENABLE ALWAYS TRIGGER waits")
            holder.execute("SELECT pg_advisory_lock(7731)")
            database.execute(
                psycopg.sql.SQL(
                    "CREATE SUBSCRIPTION applied CONNECTION {} PUBLICATION applied "
                    "WITH (create_slot = false, copy_data = false)"
                ).format(elsewhere)
            )
            with psycopg.connect(elsewhere, autocommit=True) as other:
                other.execute("INSERT INTO applied VALUES (1)")
            wait_until(lambda: list(database.execute(waiting)), what="the worker's transaction")
            ((begun,),) = database.execute(waiting)
            with PostgresReader(dsn).snapshot() as snapshot:
                moment = snapshot.moment
            assert moment.oldest_transaction_ms <= begun < moment.now_ms
            assert moment.all_seen
        finally:
            holder.execute("SELECT pg_advisory_unlock_all()")
            if list(database.execute("SELECT FROM pg_subscription WHERE subname = 'applied'")):
                database.execute("ALTER SUBSCRIPTION applied DISABLE")
                database.execute("ALTER SUBSCRIPTION applied SET (slot_name = NONE)")
                database.execute("DROP SUBSCRIPTION applied")
            free = "SELECT FROM pg_replication_slots WHERE slot_name = 'applied' AND NOT active"
            wait_until(lambda: list(database.execute(free)), what="the slot's last reader to go")
            database.execute("SELECT pg_drop_replication_slot('applied')")
            database.execute("DROP DATABASE applied_from WITH (FORCE)")


def test_a_user_who_may_not_see_others_transactions_is_told_so(dsn):
    with psycopg.connect(dsn, autocommit=True) as database, psycopg.connect(dsn):
        database.execute("CREATE ROLE reading_blind LOGIN PASSWORD 'x'")
        blind = psycopg.conninfo.make_conninfo(dsn, user="reading_blind", password="x")  # noqa: S106 - that is the test
        try:
            for grant, sees in (("", False), ("GRANT pg_read_all_stats TO reading_blind", True)):
                if grant:
                    database.execute(grant)
                with PostgresReader(blind).snapshot() as snapshot:
                    assert snapshot.moment.all_seen is sees
        finally:
            database.execute("DROP ROLE reading_blind")


def test_a_session_that_does_not_say_when_its_transaction_began_is_told_of(dsn):
    with psycopg.connect(dsn, autocommit=True) as silent:
        for said in (True, False):
            silent.execute(f"SET track_activities = {said}")
            with silent.transaction(), PostgresReader(dsn).snapshot() as snapshot:
                assert snapshot.moment.all_seen is said


def test_rows_after_a_value_are_those_that_are_greater(dsn):
    with psycopg.connect(dsn, autocommit=True) as database:
        database.execute("CREATE TABLE after (n int, day date)")
        database.execute("INSERT INTO after SELECT g, '2026-01-01'::date + g / 2 FROM generate_series(0, 9) g")
    assert sorted(read(dsn, "after", ["n"], after=("n", "6"))["n"].to_pylist()) == [7, 8, 9]
    assert sorted(read(dsn, "after", ["n"], after=("day", "2026-01-04"))["n"].to_pylist()) == [6, 7, 8, 9]
    with PostgresReader(dsn).snapshot() as snapshot, pytest.raises(ConfigError, match="no column it's"):
        snapshot.newest(snapshot.shape("after"), "it's")


# A key, two of its values as the log has them, and how 20,000 rows get theirs by `n`.
KEYS = {
    "number": ("id bigint", [["7"], ["19999"]], "n"),
    "text": ("id text", [["k7"], ["it's \\"]], "CASE n WHEN 9 THEN 'it''s \\' ELSE 'k' || n END"),
    "odd text": ('id text COLLATE "C"', [["k7"], ["k8"]], "'k' || n"),
    "padded": ("id char(8)", [["7       "], ["12      "]], "n::text"),
    "pair": ("a text, id int", [["t1", "7"], ["t0", "8"]], "'t' || n % 2, n"),
    "moment": (
        "id timestamptz",
        [["2026-01-01 00:00:07+00"], ["2026-01-01 00:00:08.5+00"]],
        "'2026-01-01Z'::timestamptz + CASE n WHEN 8 THEN 8.5 ELSE n END * interval '1 s'",
    ),
    "uuid": (
        "id uuid",
        [["00000000-0000-0000-0000-000000000007"], ["00000000-0000-0000-0000-000000000008"]],
        "lpad(n::text, 32, '0')::uuid",
    ),
    "raw": ("id bytea", [["\\x000007"], ["\\x000008"]], "decode(lpad(n::text, 6, '0'), 'hex')"),
    "domain": ("id reading_positive", [["7"], ["8"]], "n"),
}


@pytest.mark.parametrize(("columns", "keys", "given"), KEYS.values(), ids=KEYS)
def test_rows_are_found_by_their_keys_in_an_index(dsn, columns, keys, given):
    names = [column.split()[0] for column in columns.split(", ")]
    scans = "SELECT idx_scan, seq_scan FROM pg_stat_user_tables WHERE relname = 'found_by_key'"
    with psycopg.connect(dsn, autocommit=True) as database:
        database.execute("DROP TABLE IF EXISTS found_by_key")
        database.execute(f"CREATE TABLE found_by_key ({columns}, v text, PRIMARY KEY ({', '.join(names)}))")
        database.execute(f"INSERT INTO found_by_key SELECT {given}, 'v' FROM generate_series(1, 20000) n")  # noqa: S608 - ours
        database.execute("ANALYZE found_by_key")
        ((before, scanned),) = database.execute(scans)
        with PostgresReader(dsn).snapshot() as snapshot:
            by_name = dict(zip(names, map(list, zip(*keys, strict=True)), strict=True))
            rows = snapshot.rows_of(snapshot.shape("found_by_key"), [*names, "v"], by_name)
        assert (rows.num_rows, rows.column("v").to_pylist()) == (2, ["v", "v"])
        counted = "SELECT seq_scan FROM pg_stat_user_tables WHERE relname = 'found_by_key' AND idx_scan > %s"
        wait_until(lambda: list(database.execute(counted, [before])), what="the server's count of index scans")
        assert list(database.execute(counted, [before])) == [(scanned,)]


def test_a_wait_ends_when_the_server_is_silent_or_we_are_to_stop(dsn):
    with psycopg.connect(dsn, autocommit=True) as database:
        database.execute("CREATE VIEW sleeps AS SELECT pg_sleep(60)::text AS t")
    for reader, kind, said in (
        (PostgresReader(dsn, stalled_s=0.3), Unreachable, "sent nothing for 0.3 s"),
        (PostgresReader(dsn, stopping=lambda: True), Retryable, "the process is stopping"),
    ):
        with pytest.raises(kind, match=said), reader.snapshot() as snapshot:
            list(snapshot.rows(snapshot.shape("sleeps"), ["t"]))


def test_a_reading_that_takes_long_is_not_ended_by_the_users_time_outs(dsn):
    limited = psycopg.conninfo.make_conninfo(dsn, options="-c transaction_timeout=50ms -c statement_timeout=50ms")
    with psycopg.connect(dsn, autocommit=True) as database:
        if database.info.server_version < 170_000:
            pytest.skip("transactions have no time-out before PostgreSQL 17")
        database.execute("CREATE VIEW takes_long AS SELECT pg_sleep(0.2)::text AS t")
    assert read(limited, "takes_long").num_rows == 1


def test_a_connection_with_a_high_number_is_read_too(dsn):
    """`select` takes descriptors below 1,024 only."""
    taken = [os.dup(0) for _ in range(1_100)]
    try:
        assert read(dsn, '"Odd types"').num_rows == 3
    finally:
        for descriptor in taken:
            os.close(descriptor)


def test_wrong_names_and_passwords_are_the_users_to_correct(dsn):
    with pytest.raises(ConfigError, match="there is no such table"):
        read(dsn, "nowhere")
    with pytest.raises(ConfigError, match="password authentication failed"):
        read(psycopg.conninfo.make_conninfo(dsn, password="wrong"), "after")  # noqa: S106 - that is the test
    with pytest.raises(Unreachable):
        read("postgresql://127.0.0.1:1/x", "after")
