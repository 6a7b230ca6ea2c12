"""Connects to PostgreSQL: a silent network is noticed, and a wrong address is reported without its text."""

from typing import Any

import psycopg

from stores.errors import ConfigError
from stores.external.postgres.errors import mapped

# The kernel must not wait for minutes for a host that is gone: neither for an answer nor for an acknowledgement.
_OPTIONS: dict[str, Any] = {
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 25_000,
}


def connect(dsn: str, *, timeout_s: int, application: str) -> psycopg.Connection:
    """A connection that commits each statement. Raises errors of our tree, which never contain the password."""
    try:
        return psycopg.connect(
            dsn, autocommit=True, connect_timeout=timeout_s, application_name=application, **_OPTIONS
        )
    except psycopg.ProgrammingError:  # the text is no dsn, and the error quotes it
        raise ConfigError(
            "not an address of PostgreSQL",
            next_step="correct the dsn; a password with odd characters is quoted ('...'), in a URL written as %XX",
        ) from None
    except psycopg.Error as error:
        raise mapped(error, shown(dsn)) from None


def shown(dsn: str) -> str:
    """Host and database, for messages: never the password."""
    try:
        parts = psycopg.conninfo.conninfo_to_dict(dsn)
    except psycopg.Error:
        return "PostgreSQL"
    return f"PostgreSQL {parts.get('host', 'localhost')}:{parts.get('port', 5432)}/{parts.get('dbname', '')}"
