"""A table that comes straight from PostgreSQL is as the database was at one moment, a refresh later."""

import time
from contextlib import contextmanager

import psycopg
import pytest

from enrich.config.messages.problems import ConfigProblems
from tests.support.host.loader_agent import REFRESH_MS, LoaderAgent, loader_agent
from tests.support.waiting import wait_until


@pytest.fixture
def postgres(servers, request):
    """A connection, and a schema of this test's own."""
    with psycopg.connect(servers.postgres_dsn, autocommit=True) as connection:
        schema = f"s{abs(hash(request.node.name))}"
        connection.execute(f"CREATE SCHEMA {schema}")
        connection.execute(f"SET search_path TO {schema}")
        yield connection
        connection.execute(f"DROP SCHEMA {schema} CASCADE")


def section(servers, postgres, *, key="[id]", columns="rps int", dsn=None, table="limits", more=""):
    (schema,) = postgres.execute("SELECT current_schema()").fetchone()
    source = f'postgres: "{dsn or servers.postgres_dsn}", table: {schema}.{table}, key: {key}'
    return f'{{loader: {{{source}}}, columns: "{columns}"{more}}}'


def test_rows_are_loaded_and_each_refresh_brings_what_changed_and_nothing_else(servers, postgres, folder):
    postgres.execute("CREATE TABLE limits (id text PRIMARY KEY, rps int, other text)")
    postgres.execute("INSERT INTO limits VALUES ('ann', 1), ('bob', 2), ('eve', NULL)")
    with loader_agent(folder, section(servers, postgres)) as agent:
        agent.until_ready()
        assert agent.rows() == {"ann": 1, "bob": 2, "eve": None}
        postgres.execute("UPDATE limits SET rps = 10 WHERE id = 'ann'")
        postgres.execute("UPDATE limits SET other = 'x'")
        postgres.execute("DELETE FROM limits WHERE id = 'eve'")
        agent.refresh()
        assert agent.rows() == {"ann": 10, "bob": 2}
        assert agent.offsets() == {"ann": 3, "bob": 1, "eve": 4}


def test_every_type_arrives_as_the_columns_say(servers, postgres, folder):
    postgres.execute(
        "CREATE TABLE limits (tenant text, id bigint, flag boolean, price numeric(10, 2), day date, at timestamptz, "
        "raw bytea, tags text[], more jsonb)"
    )
    postgres.execute(
        "INSERT INTO limits VALUES ('a\"b', 7, true, 12.30, '2026-02-28', '2026-02-28 10:00:00+02', '\\x00ff', "
        """'{x,"y z"}', '{"rps": 5, "burst": null}')"""
    )
    columns = (
        "flag boolean, price decimal(10,2), day date, at timestamp, raw binary, tags array<string>, "
        "more struct<rps:int,burst:int>"
    )
    with loader_agent(folder, section(servers, postgres, key="[tenant, id]", columns=columns)) as agent:
        agent.until_ready()
        ((key, row),) = agent.rows().items()
        assert key == '["a\\"b",7]'
        row = {name: str(value) for name, value in row.items()}
        assert row == {
            "flag": "True",
            "price": "12.30",
            "day": "2026-02-28",
            "at": "2026-02-28 08:00:00+00:00",
            "raw": "b'\\x00\\xff'",
            "tags": "['x', 'y z']",
            "more": "{'rps': 5, 'burst': None}",
        }


def test_a_row_without_a_key_is_said_and_one_of_another_type_is_set_aside(servers, postgres, folder):
    postgres.execute("CREATE TABLE limits (id text, rps text)")
    postgres.execute("INSERT INTO limits VALUES ('ann', '1'), (NULL, '2')")
    with loader_agent(folder, section(servers, postgres)) as agent:
        state = agent.until_ready()
        assert (agent.rows(), state.quarantined) == ({}, 1)
        assert state.reason == "1 rows have no key: it, or a part of it, is null or of another type"


def test_a_key_in_two_rows_is_said_and_the_same_row_is_taken_each_time(servers, postgres, folder):
    postgres.execute("CREATE TABLE limits (id text, rps int)")
    postgres.execute("INSERT INTO limits VALUES ('ann', 1), ('ann', 3), ('ann', 2)")
    with loader_agent(folder, section(servers, postgres)) as agent:
        state = agent.until_ready()
        assert agent.rows() == {"ann": 3}
        assert "2 rows have a key that another row has as well" in str(state.reason)
        postgres.execute("UPDATE limits SET rps = rps")
        agent.refresh()
        assert agent.offsets() == {"ann": 0}


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ("DROP TABLE limits", "no such table"),
        ("ALTER TABLE limits DROP COLUMN rps", "no column rps"),
        ("ALTER TABLE limits RENAME COLUMN id TO key", "no column id"),
    ],
)
def test_a_table_that_is_no_longer_as_it_was_leaves_the_rows_and_says_what_is_wrong(
    servers, postgres, folder, changed, reason
):
    postgres.execute("CREATE TABLE limits (id text, rps int)")
    postgres.execute("INSERT INTO limits VALUES ('ann', 1)")
    with loader_agent(folder, section(servers, postgres)) as agent:
        ready = agent.until_ready()
        postgres.execute(changed)
        held = agent.try_refresh(reason)
        assert (held.ready, held.complete_through) == (True, ready.complete_through)
        assert agent.rows() == {"ann": 1}


def test_a_refused_login_is_a_reason_without_the_password(servers, postgres, folder, caplog):
    password = servers.postgres_dsn.split(":")[2].split("@")[0]
    dsn = servers.postgres_dsn.replace(password, "wr0ng-s3cret")
    with loader_agent(folder, section(servers, postgres, dsn=dsn)) as agent:
        refused = agent.until(lambda state: "PostgreSQL" in (state.reason or ""), "the reason")
        assert "password authentication failed" in str(refused.reason)
        assert "wr0ng-s3cret" not in str(refused) + str([vars(record) for record in caplog.records])


def test_a_typing_error_in_the_address_is_refused_without_telling_the_address(servers, postgres, folder):
    with (
        pytest.raises(ConfigProblems) as refused,
        loader_agent(folder, section(servers, postgres, dsn="host=h password=a s3cret")),
    ):
        pass
    assert "s3cret" not in str(refused.value)


@contextmanager
def locked(servers, postgres):
    """Nobody can read the table inside the block."""
    (schema,) = postgres.execute("SELECT current_schema()").fetchone()
    with psycopg.connect(servers.postgres_dsn) as other:  # a transaction does not see who begins to wait in it
        other.execute(f"LOCK TABLE {schema}.limits IN ACCESS EXCLUSIVE MODE")
        yield
        other.rollback()


def waiting_for_a_lock(postgres) -> int | None:
    found = postgres.execute("SELECT pid FROM pg_stat_activity WHERE wait_event_type = 'Lock' LIMIT 1").fetchone()
    return None if found is None else int(found[0])


def test_a_connection_cut_while_it_is_read_leaves_the_rows(servers, postgres, folder):
    postgres.execute("CREATE TABLE limits (id text, rps int)")
    postgres.execute("INSERT INTO limits VALUES ('ann', 1)")
    with loader_agent(folder, section(servers, postgres)) as agent:
        agent.until_ready()
        with locked(servers, postgres):
            agent.clock.advance(REFRESH_MS)
            pid = wait_until(lambda: agent.state() and waiting_for_a_lock(postgres), what="a read that waits")
            postgres.execute("SELECT pg_terminate_backend(%s)", [pid])
            agent.until(lambda state: "PostgreSQL" in (state.reason or ""), "the reason")
            assert agent.rows() == {"ann": 1}


def test_an_agent_that_is_told_to_stop_does_not_wait_for_the_database(servers, postgres, folder):
    postgres.execute("CREATE TABLE limits (id text, rps int)")
    with locked(servers, postgres), loader_agent(folder, section(servers, postgres)) as agent:
        wait_until(lambda: agent.state() and waiting_for_a_lock(postgres), what="a read that waits")
        assert stopped_after_s(agent) < 3


def stopped_after_s(agent: LoaderAgent) -> float:
    began = time.monotonic()
    agent.agent.close()
    return time.monotonic() - began


def test_a_truncated_table_is_emptied_only_when_three_reads_in_a_row_say_so(servers, postgres, folder):
    postgres.execute("CREATE TABLE limits (id text, rps int)")
    postgres.execute("INSERT INTO limits SELECT n::text, n FROM generate_series(1, 10) n")
    with loader_agent(folder, section(servers, postgres)) as agent:
        agent.until_ready()
        postgres.execute("DELETE FROM limits WHERE rps > 4")
        for number in (1, 2):
            agent.try_refresh(f"this was number {number}")
            assert len(agent.rows()) == 10
        agent.refresh()
        assert len(agent.rows()) == 4
