"""A table becomes a topic by PostgreSQL's change log: every committed change, once, whatever it is."""

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, closing, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import psycopg
import pytest

from enrich.admin.doctor.logs import of_logs
from enrich.config import load_text
from enrich.config.groups import source_group
from enrich.config.sections.sync.sources import slot_name
from enrich.kafka.writing.transactions import TransactionalProducer
from enrich.service.routes import RouteState
from stores.external.postgres.log.slots import Slots
from stores.external.postgres.reading import PostgresReader, PostgresSnapshot
from sync_service.sources.known import catching_up
from sync_service.sources.logged import building
from sync_service.sources.logged.keeping import Beside
from tests.support.figures import unexplained_of
from tests.support.seed import rounds
from tests.support.servers.postgres_standby import standby_of
from tests.support.sync.service import Running, running
from tests.support.sync.sources import SourceWorld, compared, is_held, repeats
from tests.support.waiting import GUARD_S, wait_until

MIB = 1 << 20


@pytest.fixture
def logged(source: SourceWorld) -> Iterator[SourceWorld]:
    """A table whose log is followed. Its slot goes with the test: it would hold the log."""
    source.origin = {"postgres": {**source.origin["postgres"], "follow": "log"}}
    source.make_topic()
    yield source
    drop_slot(source)
    source.postgres.execute(f"DROP PUBLICATION IF EXISTS {slot_name(source.name, 'in')}")


def drop_slot(source: SourceWorld) -> None:
    with closing(Slots(source.dsn, slot_name(source.name, "in"))) as slots:
        slots.drop()


def test_the_topic_becomes_the_table_and_follows_each_change(logged: SourceWorld) -> None:
    logged.make_table(rows=1_000)
    with logged.running():
        logged.wait_equal()
        logged.insert(1_001, 1_500)
        logged.change(5, "changed")
        logged.execute("DELETE FROM {} WHERE id BETWEEN 10 AND 19")
        logged.execute("UPDATE {} SET id = -id WHERE id BETWEEN 20 AND 24")  # a new key: the old one goes
        logged.wait_equal()
    assert logged.records() == 1_000 + 500 + 1 + 10 + 10
    assert repeats(logged.versions()) == []


def test_many_rows_that_cannot_become_records_are_a_line_in_the_log_at_once_and_one_at_the_end(
    source: SourceWorld, caplog: pytest.LogCaptureFixture
) -> None:
    source.origin = {"postgres": {**source.origin["postgres"], "follow": "log"}}
    source.make_topic(max_message_bytes="9000")
    source.make_table(rows=10)
    try:
        with source.running() as service:
            source.wait_equal()
            for number in range(10):
                source.change(5, "x" * (10_000 + number))
                wait_until(partial(_has_rejected, service, number + 1), what="the change")
    finally:
        drop_slot(source)
    lines = [record.getMessage() for record in caplog.records if "cannot become records" in record.getMessage()]
    assert lines == [
        f"{number} rows cannot become records: larger than the topic's limit of 8000 bytes" for number in (1, 9)
    ]


def test_changes_while_nobody_runs_are_not_missed_and_nothing_is_repeated(logged: SourceWorld) -> None:
    logged.make_table(rows=100)
    with logged.running():
        logged.wait_equal()
    logged.change(1, "while away")
    logged.execute("DELETE FROM {} WHERE id = 2")
    logged.insert(101, 110)
    with logged.running() as service:
        logged.wait_equal()
        assert service.status("in").counters["readings"] == 0, "it went on in the log, and compared nothing"
    assert logged.records() == 100 + 1 + 1 + 10


def test_what_is_rolled_back_is_not_there_and_a_transaction_comes_whole(logged: SourceWorld) -> None:
    logged.make_table(rows=10)
    with logged.running():
        logged.wait_equal()
        with logged.postgres.transaction():
            logged.execute("UPDATE {} SET plan = 'inner' WHERE id = 1")
            with pytest.raises(ZeroDivisionError), logged.postgres.transaction():
                logged.execute("UPDATE {} SET plan = 'never' WHERE id = 2")
                raise ZeroDivisionError
            logged.execute("UPDATE {} SET plan = 'last' WHERE id = 1")
        logged.wait_equal()
    values = [value for value in logged.versions()[b"1"] if value is not None]
    assert [b"inner" in values[1], b"last" in values[2]] == [True, True]
    assert len(logged.versions()[b"2"]) == 1


def test_truncate_deletes_all_rows_and_asks_nobody(logged: SourceWorld) -> None:
    logged.make_table(rows=50)
    with logged.running():
        logged.wait_equal()
        with logged.postgres.transaction():
            logged.execute("TRUNCATE {}")
            logged.insert(40, 60)
        logged.wait_equal()
    # A row that is there again is never deleted meanwhile.
    assert None not in logged.versions()[b"45"]


def test_a_stop_does_not_wait_for_a_database_that_says_nothing(
    logged: SourceWorld, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(building, "_LOCK_S", 600.0)
    logged.make_table(rows=10)
    with logged.running():
        logged.wait_equal()
    logged.cluster.make_again(logged.topic)  # it is compared anew
    waits = "SELECT count(*) FROM pg_locks WHERE NOT granted AND relation = '{}'::regclass"
    with psycopg.connect(logged.dsn) as connection:
        connection.execute(logged.filled("LOCK TABLE {} IN ACCESS EXCLUSIVE MODE"))
        with logged.running():
            wait_until(lambda: logged.execute(waits).fetchone() == (1,), what="the comparison to wait")
    assert "stopped" not in caplog.text  # it is no failure


def test_a_table_that_is_truncated_while_it_is_compared_loses_no_row_that_stands(
    logged: SourceWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To a snapshot from before it, the table is empty."""
    logged.make_table(rows=50)
    visible, begun = PostgresSnapshot.visible, []

    def load_again(lock_timeout: str) -> None:
        with psycopg.connect(logged.dsn) as connection:
            connection.execute(f"SET LOCAL lock_timeout = '{lock_timeout}'")
            connection.execute(logged.filled("TRUNCATE {}"))
            connection.execute(
                logged.filled("INSERT INTO {} (id, plan) SELECT n, 'again' FROM generate_series(1, 50) n")
            )

    def seen(self: PostgresSnapshot) -> tuple[str, str]:
        found = visible(self)
        begun.append(found)
        if len(begun) == 2:
            with suppress(psycopg.errors.LockNotAvailable):  # it waits for the comparison
                load_again("100ms")
        return found

    with logged.running():
        logged.wait_equal()
        monkeypatch.setattr(PostgresSnapshot, "visible", seen)
        begun.append(("", ""))
        load_again("10s")
        wait_until(lambda: len(begun) >= 2, what="the comparison")
        logged.wait_equal()
    assert not [key for key, values in logged.versions().items() if None in values]


def test_a_table_that_is_made_again_and_is_empty_yet_deletes_nothing(logged: SourceWorld) -> None:
    logged.make_table(rows=100)
    with logged.running() as service:
        logged.wait_equal()
        with logged.postgres.transaction():
            logged.execute("DROP TABLE {}")
            logged.make_table()
        wait_until(lambda: is_held(service), what="the question")
        assert "not have a single row" in str(service.status("in").last_error)
        assert len(logged.in_topic()) == 100
        logged.insert(1, 110)
        logged.wait_equal()
        logged.change(1, "followed")
        logged.wait_equal()


def test_rows_of_the_log_that_nobody_can_read_yet_are_compared_too(
    logged: SourceWorld, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A commit returns before its records can be read: a comparison right after it must not overlook them."""
    monkeypatch.setattr(catching_up, "_SETTLED_S", 0.5)
    caplog.set_level("INFO")
    logged.make_table(rows=10)
    other = TransactionalProducer(logged.cluster.connection, f"{logged.topic}.other")
    other.start()
    with logged.running() as service, closing(other):
        logged.wait_equal()
        with pytest.raises(KeyError), other.transaction():
            other.produce(logged.topic, [b"%d" % number for number in range(20)], [b"never"] * 20)
            wait_until(lambda: sum(logged.cluster.topics.written_offsets(logged.topic).values()) >= 30)
            with logged.postgres.transaction():
                logged.insert(11, 20)
                logged.execute("TRUNCATE {}")
            wait_until(
                lambda: "cannot be read yet" in caplog.text or service.status("in").counters["readings"] == 2,
                what="a comparison beside what cannot be read",
            )
            raise KeyError  # the other transaction is aborted, and all can be read
        logged.wait_equal(deadline_s=30)


def test_a_column_with_a_default_changes_all_rows(logged: SourceWorld) -> None:
    logged.make_table(rows=50)
    with logged.running():
        logged.wait_equal()
        logged.execute("ALTER TABLE {} ADD COLUMN region text DEFAULT 'eu'")
        logged.change(7, "after it")
        logged.wait_equal()
        # The log says nothing of columns before the next change.
        logged.execute("ALTER TABLE {} ADD COLUMN quiet int DEFAULT 1")
        logged.wait_equal()
        logged.execute("ALTER TABLE {} DROP COLUMN price")
        logged.change(8, "after that")
        logged.wait_equal()


def test_a_rewritten_table_is_compared_and_one_that_is_as_it_was_is_not(logged: SourceWorld) -> None:
    logged.make_table("id bigint PRIMARY KEY, plan text, price numeric(12,2), flag boolean DEFAULT true", rows=50)
    with logged.running() as service:
        logged.wait_equal()
        logged.execute("ALTER TABLE {} DROP COLUMN flag, ADD COLUMN flag boolean DEFAULT false")
        logged.wait_equal()
        logged.execute("ALTER TABLE {} ALTER COLUMN plan TYPE text USING upper(plan)")
        logged.wait_equal()
        wait_until(lambda: service.status("in").counters["readings"] == 3, what="the comparisons")
    with logged.running() as service:
        logged.execute("UPDATE {} SET plan = 'in the log' WHERE id = 1")
        logged.wait_equal()
        assert service.status("in").counters["readings"] == 0


LARGE = "repeat(md5(random()::text), 300)"


@pytest.mark.parametrize("identity", ["DEFAULT", "FULL"])
def test_large_values_that_a_change_does_not_touch_stay(logged: SourceWorld, identity: str) -> None:
    logged.make_table("id bigint PRIMARY KEY, plan text, body text")
    logged.execute("ALTER TABLE {} ALTER COLUMN body SET STORAGE EXTERNAL")
    logged.execute(f"ALTER TABLE {{}} REPLICA IDENTITY {identity}")
    logged.execute(f"INSERT INTO {{}} SELECT n, 'p', {LARGE} FROM generate_series(1, 20) n")  # noqa: S608 - constants
    with logged.running():
        logged.wait_equal()
        logged.execute("UPDATE {} SET plan = 'q' WHERE id <= 10")
        logged.execute("UPDATE {} SET id = 100 WHERE id = 11")
        logged.wait_equal()


def test_a_row_that_is_read_again_is_as_its_change_has_made_it(
    logged: SourceWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The log has a commit before others see it: for long if a synchronous standby does not answer."""
    logged.make_table("id bigint PRIMARY KEY, plan text, body text")
    logged.execute("ALTER TABLE {} ALTER COLUMN body SET STORAGE EXTERNAL")
    logged.execute(f"INSERT INTO {{}} SELECT n, 'p', {LARGE} FROM generate_series(1, 5) n")  # noqa: S608 - constants
    looks, snapshot = [], PostgresReader.snapshot

    def counted(self: PostgresReader, locked: str | None = None) -> AbstractContextManager[PostgresSnapshot]:
        looks.append(self)
        return snapshot(self, locked)

    def change() -> None:
        with psycopg.connect(logged.dsn, autocommit=True) as connection:
            connection.execute(logged.filled("UPDATE {} SET plan = 'q' WHERE id = 1"))

    with logged.running():
        logged.wait_equal()
        monkeypatch.setattr(PostgresReader, "snapshot", counted)
        with ThreadPoolExecutor(1) as beside:
            try:
                logged.postgres.execute("ALTER SYSTEM SET synchronous_standby_names = 'nobody'")
                logged.postgres.execute("SELECT pg_reload_conf()")
                wait_until(lambda: logged.postgres.execute("SHOW synchronous_standby_names").fetchone() == ("nobody",))
                changed = beside.submit(change)
                wait_until(lambda: len(looks) > 1 or logged.records() > 5, what="a look at the row")
            finally:
                logged.postgres.execute("ALTER SYSTEM RESET synchronous_standby_names")
                logged.postgres.execute("SELECT pg_reload_conf()")
            changed.result()
        logged.wait_equal()


def test_a_transaction_that_began_before_the_source_and_ends_after_it(logged: SourceWorld) -> None:
    logged.make_table(rows=10)
    with psycopg.connect(logged.dsn) as other:
        other.execute(logged.filled("INSERT INTO {} VALUES (100, 'early')"))
        with logged.running() as service:
            # The slot is made when the transactions of now are over.
            wait_until(lambda: service.status("in").state is not RouteState.stopped, what="the start")
            logged.execute("INSERT INTO {} VALUES (101, 'beside')")
            other.commit()
            logged.wait_equal()
    assert logged.records() == 12


def test_a_slot_that_somebody_drops_is_made_again_and_all_is_compared(logged: SourceWorld) -> None:
    logged.make_table(rows=50)
    with logged.running():
        logged.wait_equal()
    drop_slot(logged)
    logged.change(3, "nobody has seen this")
    logged.execute("DELETE FROM {} WHERE id = 4")
    with logged.running():
        logged.wait_equal()
    assert logged.records() == 52


TYPES = {
    "smallint": ["-32768", "7"],
    "integer": ["-2147483648"],
    "bigint": ["9223372036854775807"],
    "real": ["1.5", "'NaN'", "'-Infinity'", "1e-30"],
    "double precision": ["0.1", "'Infinity'", "1e300"],
    "numeric(12,3)": ["-1.250", "'NaN'"],
    "numeric": ["123456789012345678901234567890.123", "'Infinity'", "0.00"],
    "boolean": ["true", "false"],
    "text": ["'plain'", "''", r"E'quote \" \\\\ tab\t line\n'", "'ü 😀'"],
    "varchar(5)": ["'abc'"],
    "char(5)": ["'ab'"],
    "bytea": [r"'\x00ff10'", r"'\x'"],
    "date": ["'2026-11-25'", "'infinity'", "'0044-03-15 BC'", "'10000-01-01'"],
    "timestamp": ["'2026-11-25 12:00:00.123456'", "'-infinity'", "'0001-01-01 00:00:00'"],
    "timestamptz": ["'2026-11-25 12:00:00.5+05:30'", "'infinity'", "'1900-01-01 00:00:00+00'"],
    "time": ["'12:00:00.25'"],
    "timetz": ["'12:00:00+02'"],
    "interval": ["'1 year 2 mons 3 days 04:05:06.7'", "'-1 day'"],
    "json": ["""'{"a":  [1, null]}'"""],
    "jsonb": ["""'{"a":  [1, null, "x"]}'"""],
    "uuid": ["'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11'"],
    "inet": ["'10.0.0.1/24'"],
    "int[]": ["'{1,NULL,3}'", "'{}'", "'[0:1]={5,6}'", "'{{1,2},{3,4}}'"],
    "text[]": [r"""'{"a,b","q\"","","NULL",NULL,x}'"""],
    "timestamptz[]": ["'{2026-11-25 12:00:00+00,infinity}'"],
    "numeric[]": ["'{1.50,NaN}'"],
    "boolean[]": ["'{t,f}'"],
    "{}_mood": ["'happy'"],
    "{}_mood[]": ["'{happy,\"so so\"}'"],
    "{}_positive": ["5"],
    "{}_pair": ["""'(1,"a ""b"" (c)")'""", "'(,)'"],
    "{}_pair[]": [r"""'{"(1,x)","(,\"\")"}'"""],
    "int4range": ["'[1,5)'", "'empty'"],
    "point": ["'(1,2)'"],
    "bit(3)": ["B'101'"],
    "tsvector": ["'a:1 b:2'"],
    "oid": ["5"],
}


def test_the_log_gives_the_same_bytes_as_a_snapshot_for_each_type(logged: SourceWorld) -> None:
    """Else each comparison would write all rows again."""
    logged.execute("CREATE TYPE {0}_mood AS ENUM ('happy', 'so so')")
    logged.execute("CREATE DOMAIN {0}_positive AS int CHECK (VALUE > 0)")
    logged.execute("CREATE TYPE {0}_pair AS (n int, t text)")
    columns = ", ".join(f"c{number} {kind.format(logged.name)}" for number, kind in enumerate(TYPES))
    logged.make_table(f"id bigint PRIMARY KEY, {columns}, twice bigint GENERATED ALWAYS AS (id * 2) STORED")
    most = max(map(len, TYPES.values()))
    with logged.running():
        wait_until(lambda: logged.cluster.topics.exists(logged.topic) and _is_active(logged), what="the slot")
        for row in range(most + 1):
            names = [f"c{number}" for number, values in enumerate(TYPES.values()) if row < len(values)]
            values = [values[row] for values in TYPES.values() if row < len(values)]
            listed, given = ", ".join(["id", *names]), ", ".join([str(row), *values])
            statement = f"INSERT INTO {logged.name} ({listed}) VALUES ({given})"  # noqa: S608 - constants
            logged.postgres.execute(statement)
        wait_until(lambda: len(logged.in_topic()) == most + 1, what="the rows")
    by_log = logged.in_topic()
    drop_slot(logged)
    with logged.running() as service:
        wait_until(lambda: service.status("in").counters["readings"] == 1, what="the comparison")
        logged.execute("UPDATE {} SET c0 = 9 WHERE id = 1")
        wait_until(lambda: service.status("in").counters["rows_written"] == 1, what="a change")
        assert service.status("in").counters["readings"] == 1, "the log's columns are those of the comparison"
    differing = {
        (list(TYPES)[int(name[1:])], str(json.loads(by_log[key])[name]), str(after))
        for key, value in logged.in_topic().items()
        for name, after in json.loads(value).items()
        if json.loads(by_log[key])[name] != after and (key, name) != (b"1", "c0")
    }
    assert not differing
    assert logged.records() == most + 2
    # The generated column is in neither.
    assert all(b"twice" not in value for value in by_log.values())


def _has_rejected(service: Running, rows: int) -> bool:
    return service.status("in").counters["rows_rejected"] >= rows


def _is_active(source: SourceWorld) -> bool:
    asked = "SELECT active FROM pg_replication_slots WHERE slot_name = %s"
    found = source.postgres.execute(asked, [slot_name(source.name, "in")]).fetchone()
    return found is not None and bool(found[0])


def test_a_row_that_the_topic_does_not_take_is_counted_and_holds_nothing_up(logged: SourceWorld) -> None:
    logged.make_table(rows=10)
    with logged.running() as service:
        logged.wait_equal()
        logged.execute("UPDATE {} SET plan = repeat('x', 2000000) WHERE id = 1")
        logged.change(2, "after it")
        wait_until(lambda: b"after it" in logged.in_topic()[b"2"], what="the change after it")
        assert service.status("in").counters["rows_rejected"] == 1
        logged.change(1, "small again")
        logged.wait_equal()


def test_a_publication_that_somebody_drops_is_made_again_and_all_is_compared(logged: SourceWorld) -> None:
    logged.make_table(rows=50)
    with logged.running():
        logged.wait_equal()
    logged.postgres.execute(f"DROP PUBLICATION {slot_name(logged.name, 'in')}")
    logged.change(3, "nobody has seen this")
    with logged.running():
        logged.wait_equal()
        logged.change(4, "and this is in the log")
        logged.wait_equal()
    assert logged.records() == 52


def test_a_topic_that_is_made_again_meanwhile_gets_all_rows(logged: SourceWorld) -> None:
    logged.make_table(rows=20)
    with logged.running():
        logged.wait_equal()
        logged.cluster.topics.delete(logged.topic)
        wait_until(lambda: not logged.cluster.topics.exists(logged.topic), what="the end of the topic")
        logged.make_topic()
        logged.change(3, "after it")
        logged.wait_equal()


def test_a_table_that_is_not_published_any_more_is_published_and_compared(logged: SourceWorld) -> None:
    logged.make_table(rows=20)
    with logged.running():
        logged.wait_equal()
        logged.postgres.execute(f"ALTER PUBLICATION {slot_name(logged.name, 'in')} DROP TABLE {logged.name}")
        logged.change(3, "nobody has seen this")
        logged.wait_equal()
        logged.change(4, "and this is in the log")
        logged.wait_equal()


def test_what_changed_before_somebody_else_published_the_table_again_is_found(logged: SourceWorld) -> None:
    logged.make_table(rows=20)
    publication, role = slot_name(logged.name, "in"), f"{logged.name}_reader"
    logged.postgres.execute(f"CREATE ROLE {role} LOGIN REPLICATION PASSWORD '{role}'")
    logged.execute(f"GRANT SELECT ON {{}} TO {role}")
    logged.execute(f"CREATE PUBLICATION {publication} FOR TABLE {{}} WITH (publish_via_partition_root = true)")
    dsn = psycopg.conninfo.make_conninfo(logged.dsn, user=role, password=role)
    logged.origin = {"postgres": {**logged.origin["postgres"], "dsn": dsn}}
    with logged.running() as service:
        logged.wait_equal()
        logged.execute(f"ALTER PUBLICATION {publication} DROP TABLE {{}}")
        logged.change(3, "nobody has seen this")
        wait_until(lambda: is_held(service), what="the statement that is missing")
        assert f'ALTER PUBLICATION "{publication}" ADD TABLE {logged.name};' in str(service.status("in").last_error)
        logged.execute(f"ALTER PUBLICATION {publication} ADD TABLE {{}}")
        logged.wait_equal()


def test_columns_that_the_publication_leaves_out_are_in_no_record(logged: SourceWorld) -> None:
    logged.make_table("id bigint PRIMARY KEY, plan text, secret text DEFAULT 'x'")
    logged.execute("INSERT INTO {} SELECT n, 'p' FROM generate_series(1, 20) n")
    publication = slot_name(logged.name, "in")
    logged.execute(f"CREATE PUBLICATION {publication} FOR TABLE {{}} (id, plan)")
    with logged.running() as service:
        wait_until(lambda: len(logged.in_topic()) == 20, what="the rows")
        for number in range(3):
            logged.execute("UPDATE {} SET plan = %s WHERE id = 1", f"changed {number}")
            wait_until(lambda: b"changed %d" % number in logged.in_topic()[b"1"], what="the change")  # noqa: B023
        assert service.status("in").counters["readings"] == 1
        assert not any(b"secret" in value for value in logged.in_topic().values())
        logged.execute(f"ALTER PUBLICATION {publication} SET TABLE {{}}")
        logged.wait_equal()


def test_a_publication_with_a_condition_for_rows_is_refused(logged: SourceWorld) -> None:
    logged.make_table(rows=10)
    logged.execute(f"CREATE PUBLICATION {slot_name(logged.name, 'in')} FOR TABLE {{}} WHERE (id > 5)")
    with logged.process() as process:
        assert process.wait(GUARD_S) == 2
    assert "has a condition (WHERE)" in (logged.directory / "service.log").read_text()


def test_rows_that_are_deleted_while_the_log_does_not_tell_their_key_are_found(logged: SourceWorld) -> None:
    logged.make_table("id bigint PRIMARY KEY, plan text, other uuid NOT NULL DEFAULT gen_random_uuid()")
    logged.execute("INSERT INTO {} SELECT n, 'p' FROM generate_series(1, 20) n")
    with logged.running() as service:
        wait_until(lambda: len(logged.in_topic()) == 20, what="the rows")
        logged.execute("ALTER TABLE {0} DROP CONSTRAINT {0}_pkey, ADD PRIMARY KEY (other)")
        logged.execute("DELETE FROM {} WHERE id = 5")
        logged.execute("UPDATE {} SET id = 100 WHERE id = 6")
        wait_until(lambda: is_held(service), what="the trouble")
        assert "REPLICA IDENTITY FULL" in str(service.status("in").last_error)
        logged.execute("DELETE FROM {} WHERE id = 7")
        logged.execute("ALTER TABLE {} REPLICA IDENTITY FULL")
        living = {b"100", *(b"%d" % number for number in range(1, 21) if number not in (5, 6, 7))}
        wait_until(lambda: logged.in_topic().keys() == living, what="the table's keys")
        logged.execute("DELETE FROM {} WHERE id = 8")
        wait_until(lambda: logged.in_topic().keys() == living - {b"8"}, what="a change in the log")


def test_a_key_that_moves_while_nobody_runs_and_the_log_does_not_tell_it_leaves_no_row(logged: SourceWorld) -> None:
    logged.make_table("id bigint PRIMARY KEY, plan text, other uuid NOT NULL DEFAULT gen_random_uuid()")
    logged.execute("INSERT INTO {} SELECT n, 'p' FROM generate_series(1, 20) n")
    with logged.running():
        wait_until(lambda: len(logged.in_topic()) == 20, what="the rows")
    logged.execute("ALTER TABLE {0} DROP CONSTRAINT {0}_pkey, ADD PRIMARY KEY (other)")
    logged.execute("UPDATE {} SET id = 100 WHERE id = 6")
    logged.execute("ALTER TABLE {0} DROP CONSTRAINT {0}_pkey, ADD PRIMARY KEY (id)")
    with logged.running() as service:
        wait_until(lambda: {b"6", b"100"} & logged.in_topic().keys() == {b"100"}, what="the moved row")
        logged.execute("DELETE FROM {} WHERE id = 8")
        wait_until(lambda: b"8" not in logged.in_topic(), what="a change in the log")
        assert service.status("in").counters["readings"] == 1


def test_a_stop_does_not_wait_for_transactions_of_others(logged: SourceWorld) -> None:
    """The slot is made when those of now are over."""
    logged.make_table(rows=10)
    slot = slot_name(logged.name, "in")
    logged.execute(f"CREATE PUBLICATION {slot} FOR TABLE {{}} WITH (publish_via_partition_root = true)")
    count = "SELECT count(*) FROM pg_replication_slots WHERE slot_name = %s"
    with psycopg.connect(logged.dsn) as other:
        other.execute(logged.filled("INSERT INTO {} VALUES (100, 'early')"))
        with logged.process() as process:
            wait_until(lambda: logged.postgres.execute(count, [slot]).fetchone()[0] == 1, what="the slot")
            process.terminate()
            assert process.wait(GUARD_S) == 0
        wait_until(lambda: logged.postgres.execute(count, [slot]).fetchone()[0] == 0, what="the end of the slot")


def test_other_columns_of_the_configuration_are_in_all_records(logged: SourceWorld) -> None:
    logged.make_table(rows=20)
    logged.origin["postgres"]["columns"] = ["id", "plan"]
    with logged.running():
        wait_until(lambda: len(logged.in_topic()) == 20, what="the rows")
    del logged.origin["postgres"]["columns"]
    with logged.running():
        logged.wait_equal()
    with logged.running() as service:
        logged.change(1, "in the log")
        logged.wait_equal()
        assert service.status("in").counters["readings"] == 0


def test_a_table_that_is_named_again_after_another_one_is_compared(logged: SourceWorld) -> None:
    """While the other one had its turn, the place in the log went past what happened to this one."""
    logged.make_table(rows=20)
    logged.execute("CREATE TABLE {0}_other (LIKE {0} INCLUDING ALL)")
    logged.execute("INSERT INTO {0}_other SELECT * FROM {0}")
    changes = {
        logged.name: "UPDATE {} SET plan = %s WHERE id BETWEEN %s AND 3",
        f"{logged.name}_other": "UPDATE {}_other SET plan = %s WHERE id BETWEEN %s AND 3",
    }
    for turn in range(2):  # the first time that a table is published, its slot is made again
        for table, change in changes.items():
            logged.origin["postgres"]["table"] = table
            for other in changes.keys() - {table}:
                logged.execute(changes[other], f"before {turn} of {table}", 1)
            with logged.running():
                wait_until(partial(_is_like, logged, table), what=f"a topic like {table}")
                logged.execute(change, f"last {turn} of {table}", 3)
                wait_until(partial(_is_like, logged, table), what=f"a change of {table} in the log")
    logged.execute("DROP TABLE {}_other")


def _is_like(source: SourceWorld, table: str) -> bool:
    return not compared(source.postgres.execute(f"SELECT * FROM {table}"), source.in_topic())  # noqa: S608 - our own


def test_a_table_whose_log_is_followed_again_after_another_kind_of_source_is_compared(logged: SourceWorld) -> None:
    logged.make_table("id bigint PRIMARY KEY, plan text, twice bigint GENERATED ALWAYS AS (id * 2) STORED")
    logged.execute("INSERT INTO {} (id, plan) SELECT n, 'plan' FROM generate_series(1, 20) n")
    by_log = {number: {"id": number, "plan": "plan"} for number in range(1, 21)}
    asked = {number: {**row, "twice": 2 * number} for number, row in by_log.items()}

    def rows() -> dict[int, Any]:
        return {int(key): json.loads(value) for key, value in logged.in_topic().items()}

    with logged.running():
        wait_until(lambda: rows() == by_log, what="the rows of the log")
    logged.origin["postgres"]["follow"] = "cursor"
    with logged.running():
        wait_until(lambda: rows() == asked, what="the rows of the table")
    logged.origin["postgres"]["follow"] = "log"
    with logged.running():
        wait_until(lambda: rows() == by_log, what="the rows of the log")
    with logged.running() as service:
        logged.execute("UPDATE {} SET plan = 'last' WHERE id = 1")
        wait_until(lambda: rows()[1]["plan"] == "last", what="a change")
        assert service.status("in").counters["readings"] == 0


def test_a_topic_that_another_pipeline_has_written_meanwhile_does_not_go_back_to_old_rows(logged: SourceWorld) -> None:
    """As one does that gets another name for a while: it has another slot, and the first one waits."""
    logged.make_table(rows=10)
    with logged.running():
        logged.wait_equal()
    other = {**logged.data(), "name": f"{logged.name}b"}
    slot = slot_name(other["name"], "in")
    try:
        with running(load_text(json.dumps(other), {})):
            for plan in ("first", "second"):
                logged.change(5, plan)
                logged.wait_equal()
        with logged.running():
            logged.change(6, "third")
            logged.wait_equal()
    finally:
        with closing(Slots(logged.dsn, slot)) as slots:
            slots.drop()
        logged.execute(f"DROP PUBLICATION IF EXISTS {slot}")
    values = [value for value in logged.versions()[b"5"] if value is not None]
    assert [json.loads(value)["plan"] for value in values[1:]] == ["first", "second"]


def test_a_table_that_is_asked_again_after_its_log_was_followed_is_read_whole(logged: SourceWorld) -> None:
    twice = "twice bigint GENERATED ALWAYS AS (id * 2) STORED"
    logged.make_table(f"id bigint PRIMARY KEY, plan text, at timestamptz, {twice}")
    logged.execute("INSERT INTO {} SELECT n, 'plan', now() - n * interval '1 hour' FROM generate_series(1, 20) n")
    log = logged.origin
    logged.with_cursor()
    logged.origin["postgres"]["follow"] = "cursor"
    asked = logged.origin
    with logged.running():
        logged.wait_equal()
    logged.origin = log
    with logged.running():
        wait_until(lambda: b"twice" not in b"".join(logged.in_topic().values()), what="the rows of the log")
    logged.origin = asked
    with logged.running():
        logged.wait_equal()


def test_a_database_that_was_restored_from_a_copy_of_its_disk_is_compared(logged: SourceWorld) -> None:
    """Its log ends before the place that the topic has reached, and goes on otherwise."""
    logged.make_table(rows=20)
    with logged.running():
        logged.wait_equal()
    group = f"{source_group(logged.name, 'in')}.log"
    producer = TransactionalProducer(logged.cluster.connection, f"{logged.topic}.other")
    with closing(Beside(logged.cluster.connection, group, logged.topic)) as kept, closing(producer):
        place, states = kept.read()
        assert place is not None
        producer.start()
        with producer.transaction():
            kept.write(replace(place, at=place.at + (1 << 40)), states, producer)
    logged.change(3, "after it")
    with logged.running():
        logged.wait_equal()
        logged.change(4, "and this is in the log")
        logged.wait_equal()


@pytest.mark.parametrize(
    ("make", "says"),
    [
        ("CREATE VIEW {} AS SELECT 1 AS id", "only tables are in the log"),
        ("CREATE TABLE {} (id bigint, plan text)", "REPLICA IDENTITY FULL"),
        ("SELECT 1", "there is no such table"),
    ],
)
def test_what_cannot_be_followed_is_told_with_what_mends_it(logged: SourceWorld, make: str, says: str) -> None:
    logged.execute(make)
    with logged.process() as process:
        assert process.wait(GUARD_S) == 2
    said = (logged.directory / "service.log").read_text()
    assert says in said
    assert "Traceback" not in said


def test_the_status_and_the_doctor_say_how_the_slot_is(logged: SourceWorld) -> None:
    logged.make_table(rows=10)
    with logged.running() as service:
        logged.wait_equal()
        wait_until(lambda: "slot_bytes" in service.status("in").gauges, what="the slot's size")
        assert unexplained_of("sync", [service.status("in")]) == set()
        details = service.status("in").details
        assert (details["slot"], "/" in details["place"]) == (slot_name(logged.name, "in"), True)
    told = [(v.level, v.what, v.next_step) for v in of_logs(logged.pipeline())]
    (level, what, step) = told[0]
    assert (level, "may fill the disk" in what, "max_slot_wal_keep_size" in str(step)) == ("warning", True, True)
    logged.execute("ALTER TABLE {0} DROP CONSTRAINT {0}_pkey")
    (verdict,) = of_logs(logged.pipeline())
    assert (verdict.level, "REPLICA IDENTITY FULL" in str(verdict.next_step)) == ("bad", True)


def test_tables_that_nobody_follows_do_not_make_the_slot_hold_the_log(logged: SourceWorld) -> None:
    logged.make_table(rows=10)
    logged.execute("CREATE TABLE {}_other (id int, body text)")
    with logged.running(), closing(Slots(logged.dsn, slot_name(logged.name, "in"))) as slots:
        logged.wait_equal()
        for _ in range(rounds(4, 32)):
            before = log_end(logged)
            while log_end(logged) < before + 32 * MIB:
                logged.execute(
                    "INSERT INTO {}_other SELECT n, repeat(md5(n::text), 30) FROM generate_series(1, 4000) n"
                )
            # By itself PostgreSQL would let go every 15 s.
            wait_until(lambda: held(slots) < 16 * MIB, deadline_s=8, what="a slot that lets go of the log")
        logged.change(1, "afterwards")
        logged.wait_equal()


def log_end(logged: SourceWorld) -> int:
    ((end,),) = logged.postgres.execute("SELECT (pg_current_wal_lsn() - '0/0')::bigint")
    return int(end)


def held(slots: Slots) -> int:
    slot = slots.slot()
    return 0 if slot is None else slot.held_bytes


def test_a_standby_that_is_promoted_is_compared_and_followed(logged: SourceWorld, tmp_path: Path) -> None:
    logged.make_table(rows=50)
    with standby_of(logged.dsn, tmp_path) as standby:
        with logged.running():
            logged.wait_equal()
            # The standby has not got all of the log: what is in the topic already must go again.
            with psycopg.connect(standby, autocommit=True) as connection:
                connection.execute("SELECT pg_wal_replay_pause()")
                logged.change(1, "lost with the primary")
                logged.wait_equal()
                connection.execute("SELECT pg_promote()")
        primary, logged.dsn = logged.dsn, standby
        logged.reconnect()
        logged.origin = {"postgres": {**logged.origin["postgres"], "dsn": standby}}
        logged.change(2, "after it")
        with logged.running():
            logged.wait_equal()
            logged.change(3, "and this is in the log")
            logged.wait_equal()
        drop_slot(logged)
        logged.dsn = primary
    logged.reconnect()
