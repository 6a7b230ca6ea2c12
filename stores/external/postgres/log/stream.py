"""Streams a logical replication slot with libpq's own calls: psycopg has no cursor for it, and needs none."""

import struct
import time
from typing import Any

import psycopg
from psycopg import errors, pq

from stores.errors import ConfigError, EnrichError, Unreachable
from stores.external.postgres.errors import mapped, postgres_errors
from stores.external.postgres.session import OPTIONS, cut_off_after, shown
from stores.external.postgres.waiting import arrived

_CONNECT_S = 10
_ANSWER_S = 30.0
# The formats of all values, the same as a snapshot has (reading.py): else equal rows would differ.
_SETTINGS = (
    "SET TimeZone = 'UTC'; SET DateStyle = 'ISO'; SET IntervalStyle = 'iso_8601'; SET bytea_output = 'hex'; "
    "SET extra_float_digits = 1; SET client_encoding = 'UTF8'; SET statement_timeout = 0"
)
_STATUS = struct.Struct(">cqqqqb")
_UPDATED_EVERY_S = 10.0
"""The server ends a connection that is silent for wal_sender_timeout, a minute by default."""


class ReplicationStream:
    """One connection to one slot. For one thread.

    Raises errors of our tree: Unreachable if the connection breaks or nothing comes for `stalled_s`, though the server
    sends a sign of life every 30 s.
    """

    def __init__(self, dsn: str, *, stalled_s: float = 90.0) -> None:
        self._where = shown(dsn)
        self._stalled_s = stalled_s
        try:
            self._connection = psycopg.connect(
                dsn,
                autocommit=True,
                connect_timeout=_CONNECT_S,
                application_name="enrich sync",
                replication="database",
                **OPTIONS,
            )
        except psycopg.ProgrammingError:  # the text is no dsn, and the error quotes it
            raise ConfigError("not an address of PostgreSQL", next_step="correct the dsn") from None
        except psycopg.Error as error:
            raise mapped(error, self._where) from None
        self._wire: Any = self._connection.pgconn
        self._confirmed = 0
        self._updated = self._heard = time.monotonic()
        try:
            self._asked(_SETTINGS, self._where)
            answer = self._asked("IDENTIFY_SYSTEM", self._where)
        except BaseException:
            self.close()
            raise
        self.system = str(answer.get_value(0, 0).decode())
        self.timeline = int(answer.get_value(0, 1))
        self.end = lsn_number(answer.get_value(0, 2).decode())
        """Of the log, when it was asked."""

    def start(self, slot: str, publication: str, position: int) -> None:
        """Begins with the first transaction that was committed at `position` or later."""
        options = f"proto_version '1', publication_names '\"{publication}\"', messages 'true'"
        statement = f'START_REPLICATION SLOT "{slot}" LOGICAL {lsn_text(position)} ({options})'
        where = f"{self._where}, slot {slot}"
        result = self._asked(statement, where)
        with postgres_errors(where):
            if result.status != pq.ExecStatus.COPY_BOTH:
                raise errors.error_from_result(result)
            self._wire.nonblocking = 1
        self._confirmed = position
        self._heard = time.monotonic()

    def read(self, most: int, wait_s: float) -> list[bytes]:
        """Messages that have arrived, up to so many bytes; waits for the first one, up to `wait_s`."""
        messages: list[bytes] = []
        size = 0
        get = self._wire.get_copy_data
        end = time.monotonic() + wait_s
        with postgres_errors(self._where):
            while size < most:
                length, message = get(1)
                if length > 0:
                    messages.append(bytes(message))
                    size += length
                elif length == 0:
                    if not self._arrived(0.0 if messages else max(0.0, end - time.monotonic())):
                        break
                else:
                    self._ended()
        if messages:
            self._heard = time.monotonic()
        elif time.monotonic() - self._heard > self._stalled_s:
            raise Unreachable(
                f"PostgreSQL sent nothing for {self._stalled_s:g} s",
                where=self._where,
                next_step="check that the server runs and the network works",
            )
        self.keep_alive()
        return messages

    def confirm(self, position: int) -> None:
        """Tells PostgreSQL that everything before is safe: it may delete that part of its log."""
        self._confirmed = max(self._confirmed, position)
        self._update()

    def keep_alive(self) -> None:
        """Must be called at least every half minute."""
        if time.monotonic() - self._updated > _UPDATED_EVERY_S:
            self._update()

    def close(self) -> None:
        self._connection.close()

    def _update(self) -> None:
        self._updated = time.monotonic()
        at = self._confirmed
        with postgres_errors(self._where):
            self._wire.put_copy_data(_STATUS.pack(b"r", at, at, at, 0, 0))
            self._wire.flush()

    def _asked(self, statement: str, where: str) -> Any:
        """The answer. Raises Unreachable if none comes in time: libpq itself would wait for ever."""
        limit_s = min(self._stalled_s, _ANSWER_S)
        timer, cut_off = cut_off_after(limit_s, self._connection)
        try:
            with postgres_errors(where):
                return _require_good(self._wire.exec_(statement.encode()))
        except EnrichError:
            if cut_off.is_set():
                raise Unreachable(f"PostgreSQL did not answer within {limit_s:g} s", where=where) from None
            raise
        finally:
            timer.cancel()

    def _arrived(self, wait_s: float) -> bool:
        if not arrived(self._wire.socket, wait_s):
            return False
        self._wire.consume_input()
        return True

    def _ended(self) -> None:
        """The server ended the stream: its last result says why."""
        while (result := self._wire.get_result()) is not None:
            if result.status == pq.ExecStatus.FATAL_ERROR:
                raise errors.error_from_result(result)
            if result.status == pq.ExecStatus.COPY_BOTH:
                break
        raise Unreachable("PostgreSQL ended the stream", where=self._where, next_step="check that the server runs")


def lsn_text(position: int) -> str:
    """As PostgreSQL writes it."""
    return f"{position >> 32:X}/{position & 0xFFFFFFFF:X}"


def lsn_number(text: str) -> int:
    high, _, low = text.partition("/")
    return int(high, 16) << 32 | int(low, 16)


def _require_good(result: Any) -> Any:
    if result.status == pq.ExecStatus.FATAL_ERROR:
        raise errors.error_from_result(result)
    return result
