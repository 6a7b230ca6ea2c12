"""Why PostgreSQL refuses a row is told by kind: no value of the row is in it."""

import psycopg
import pytest

from enrich.dev import Addresses
from stores.errors import BadRecord, RefusedForNow
from stores.external.postgres.errors import mapped

CANARY = "canary4111"

REFUSED = [
    ("SELECT '{}'::int", "invalid input syntax for type integer [22P02]"),
    ("SELECT '{}'::timestamptz", "invalid input syntax for type timestamp with time zone [22007]"),
    ("SELECT '{}'::uuid", "invalid input syntax for type uuid [22P02]"),
    ("SELECT '{{\"{}\"'::jsonb", "invalid input syntax for type json [22P02]"),
    ("SELECT '{}'::mood", "invalid input value for enum mood [22P02]"),
    ("INSERT INTO refusing VALUES ('{}')", "refused by PL/pgSQL function refuse() line 1 at RAISE [P0001]"),
    ("INSERT INTO checked VALUES ('{}')", 'new row for relation "checked" violates check constraint "short" [23514]'),
    ("INSERT INTO once VALUES ('{}'), ('{}')", 'duplicate key value violates unique constraint "once_pkey" [23505]'),
]


@pytest.fixture(scope="module")
def connection(servers: Addresses):
    with psycopg.connect(servers.postgres_dsn or "", autocommit=True) as connection:
        connection.execute("CREATE SCHEMA errors; SET search_path = errors; CREATE TYPE mood AS ENUM ('sad')")
        connection.execute("CREATE TABLE checked (a text CONSTRAINT short CHECK (length(a) < 3))")
        connection.execute("CREATE TABLE once (a text PRIMARY KEY); CREATE TABLE refusing (a text)")
        connection.execute(
            "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS "
            "$$BEGIN RAISE EXCEPTION 'nobody is called %', NEW.a; END$$"
        )
        connection.execute("CREATE TRIGGER t BEFORE INSERT ON refusing FOR EACH ROW EXECUTE FUNCTION refuse()")
        yield connection
        connection.execute("DROP SCHEMA errors CASCADE")


@pytest.mark.parametrize(("statement", "told"), REFUSED)
def test_a_reason_holds_no_value(connection, statement: str, told: str) -> None:
    with pytest.raises(psycopg.Error) as raised:
        connection.execute(statement.format(CANARY, CANARY))
    error = mapped(raised.value)
    assert isinstance(error, BadRecord | RefusedForNow)
    assert str(error) == f"PostgreSQL: {told}"
