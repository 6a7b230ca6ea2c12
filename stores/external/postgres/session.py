"""One connection to PostgreSQL that cannot hang: a call that takes too long is cut off, and the next one reconnects."""

import os
import socket
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any

import psycopg

from stores.errors import ConfigError, TooSlow, Unreachable
from stores.external.postgres.errors import mapped

_CHECKS_SINCE = 140_000
LIMITS_TRANSACTIONS_SINCE = 170_000
"""The version of the server that has `transaction_timeout`."""
# Fixed meaning of texts that are cast, and fixed formats of values that are read, whatever the defaults of the server,
# the database or the user are.
_SETTINGS = (
    "SET TimeZone = 'UTC'; SET DateStyle = 'ISO, MDY'; SET IntervalStyle = 'postgres'; SET bytea_output = 'hex'; "
    "SET extra_float_digits = 1; SET array_nulls = on; SET client_encoding = 'UTF8'; "
    # What is committed with `off` goes with a backend that crashes, and nobody could tell. Other values are as strict
    # as somebody wants them.
    "SELECT set_config('synchronous_commit', 'on', false) WHERE current_setting('synchronous_commit') = 'off'"
)
_ENDED_BY = (psycopg.OperationalError, psycopg.errors.ReadOnlySqlTransaction)
"""After these it connects again. A server that takes no writes any more was replaced, perhaps: its name leads to
another one by now, and a connection that is kept would never get there."""
# The kernel must not wait for minutes for a host that is gone: neither for an answer nor for an acknowledgement.
OPTIONS: dict[str, Any] = {
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 25_000,
}


def connect(dsn: str, *, timeout_s: int, application: str) -> psycopg.Connection:
    """A connection that commits each statement. Raises errors of our tree, which never contain the password."""
    try:
        return psycopg.connect(dsn, autocommit=True, connect_timeout=timeout_s, application_name=application, **OPTIONS)
    except psycopg.ProgrammingError:  # the text is no dsn, and the error quotes it
        raise ConfigError(
            "not an address of PostgreSQL",
            next_step="correct the dsn; a password with odd characters is quoted ('...'), in a URL written as %XX",
        ) from None
    except psycopg.Error as error:
        raise mapped(error, shown(dsn)) from None


def is_address(dsn: str) -> bool:
    """Whether the driver can read it as one."""
    return _parts(dsn) is not None


def shown(dsn: str) -> str:
    """Host and database, for messages: never the password."""
    parts = _parts(dsn)
    if parts is None:
        return "PostgreSQL"
    if "service" in parts and not {"host", "hostaddr"} & {*parts}:
        return f"PostgreSQL, service {parts['service']}"
    hosts = str(parts.get("host") or parts.get("hostaddr") or "localhost").split(",")
    ports = str(parts.get("port") or 5432).split(",")
    places = zip(hosts, ports * len(hosts) if len(ports) == 1 else ports, strict=False)
    shown_ = ",".join(f"[{host}]:{port}" if ":" in host else f"{host}:{port}" for host, port in places)
    return f"PostgreSQL {shown_}/{parts.get('dbname', '')}"


def _parts(dsn: str) -> Mapping[str, Any] | None:
    """None if it is no address. The driver's error is not passed on: its text may quote a part of the password."""
    try:
        return psycopg.conninfo.conninfo_to_dict(dsn)
    except psycopg.Error:
        return None


def cut_off_after(seconds: float, connection: psycopg.Connection) -> tuple[threading.Timer, threading.Event]:
    """Ends all waiting on the connection then, unless the timer is cancelled before. The event says that it did."""
    cut_off = threading.Event()

    def cut() -> None:
        cut_off.set()
        # A copy of the descriptor: the driver may close its own at any moment. A hanging server answers no cancel.
        with suppress(OSError, psycopg.Error), socket.socket(fileno=os.dup(connection.fileno())) as copy:
            copy.shutdown(socket.SHUT_RDWR)

    timer = threading.Timer(seconds, cut)
    timer.daemon = True
    timer.start()
    return timer, cut_off


class PostgresSession:
    """Connects at the first call. After an error that may have broken the connection, the next call reconnects."""

    def __init__(self, dsn: str, deadline_s: float = 10.0, *, lock_s: float | None = None) -> None:
        """`lock_s`: how long a statement waits for a lock. None: a little less than the deadline, so that a server that
        only waits for other locks is not slow."""
        self._dsn = dsn
        self._deadline_s = deadline_s
        self._lock_s = deadline_s * 0.8 if lock_s is None else lock_s
        self._connection: psycopg.Connection | None = None
        self._is_new = False
        self.where = shown(dsn)

    @contextmanager
    def connection(self, deadline_s: float | None = None) -> Iterator[psycopg.Connection]:
        """Raises errors of our tree; Unreachable when the deadline passed."""
        limit_s = deadline_s or self._deadline_s
        connection = self._opened()
        timer, cut_off = cut_off_after(limit_s, connection)
        try:
            if self._is_new:
                connection.execute(_SETTINGS)
                connection.execute(f"SET lock_timeout = {round(self._lock_s * 1000)}")
                _let_it_notice_that_we_left(connection)
                self._is_new = False
            yield connection
        except psycopg.Error as error:
            if cut_off.is_set():
                self.close()
                raise (Unreachable if self._is_new else TooSlow)(
                    f"PostgreSQL did not answer within {limit_s:g} s", where=self.where
                ) from error
            if connection.closed or connection.broken or isinstance(error, _ENDED_BY):
                self.close()
            if isinstance(error, psycopg.errors.LockNotAvailable):
                raise Unreachable(
                    f"PostgreSQL waited {self._lock_s:g} s for a lock that others hold", where=self.where
                ) from error
            raise mapped(error, self.where) from error
        finally:
            timer.cancel()

    def close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            with suppress(psycopg.Error):
                connection.close()

    def _opened(self) -> psycopg.Connection:
        if self._connection is None:
            connect_s = max(2, round(self._deadline_s / 2))
            self._connection = connect(self._dsn, timeout_s=connect_s, application="enrich sync")
            self._is_new = True
        return self._connection


def _let_it_notice_that_we_left(connection: psycopg.Connection) -> None:
    """Otherwise a statement that we cut off keeps waiting for its lock: one more with each retry, until the server has
    no connections left."""
    if connection.info.server_version >= _CHECKS_SINCE:
        with suppress(psycopg.errors.InvalidParameterValue):  # not on every operating system
            connection.execute("SET client_connection_check_interval = '1s'")
