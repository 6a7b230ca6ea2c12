"""What a connection is set to, whatever the defaults of its user and its database are."""

from contextlib import closing

import pytest
from psycopg.conninfo import make_conninfo

from enrich.dev import Addresses
from stores.errors import Retryable
from stores.external.postgres.session import PostgresSession


@pytest.mark.parametrize(
    ("default", "used"), [("off", "on"), ("on", "on"), ("local", "local"), ("remote_apply", "remote_apply")]
)
def test_what_is_written_survives_a_crash_of_the_server(servers: Addresses, default: str, used: str) -> None:
    dsn = make_conninfo(servers.postgres_dsn or "", options=f"-c synchronous_commit={default}")
    with closing(PostgresSession(dsn)) as session, session.connection() as connection:
        assert connection.execute("SHOW synchronous_commit").fetchone() == (used,)


def test_a_server_that_takes_no_writes_any_more_is_left(servers: Addresses) -> None:
    """It was replaced, perhaps: what leads to it leads to another one by now."""
    with closing(PostgresSession(servers.postgres_dsn or "")) as session:
        with session.connection() as connection:
            connection.execute("SET default_transaction_read_only = on")
        with pytest.raises(Retryable, match="read-only transaction"), session.connection() as connection:
            connection.execute("CREATE TABLE never (a int)")
        with session.connection() as connection:
            assert connection.execute("SHOW transaction_read_only").fetchone() == ("off",)
