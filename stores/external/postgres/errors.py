"""Maps psycopg's errors to ours by SQLSTATE: first by the code itself, else by its class (its first two characters)."""

import re
from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
from psycopg import errors

from stores.errors import BadRecord, ConfigError, EnrichError, Fatal, RefusedForNow, Retryable, TooSlow, Unreachable

_BY_CODE: dict[type[psycopg.Error], type[EnrichError]] = {
    errors.ReadOnlySqlTransaction: Retryable,  # a failover is under way
    errors.SqlserverRejectedEstablishmentOfSqlconnection: ConfigError,
    # These depend on other rows: a parent that comes later, a value that another row will give up.
    errors.ForeignKeyViolation: RefusedForNow,
    errors.UniqueViolation: RefusedForNow,
    errors.ExclusionViolation: RefusedForNow,
    errors.RaiseException: RefusedForNow,  # by a trigger
    errors.QueryCanceled: TooSlow,  # by the statement_timeout of the user or the database
    errors.LockNotAvailable: Unreachable,  # others lock the row, and a smaller batch would wait as long
    # Caused by a value: a query for a tsquery column, JSON that is nested too deeply. Our statements never change.
    errors.SyntaxError: BadRecord,
    errors.StatementTooComplex: BadRecord,
    errors.DatabaseDropped: ConfigError,
    errors.ConfigurationLimitExceeded: ConfigError,
    errors.CantChangeRuntimeParam: Fatal,
    errors.IdleInTransactionSessionTimeout: Retryable,
    errors.TransactionTimeout: Retryable,
    errors.UnsafeNewEnumValueUsage: Fatal,
}

BY_CLASS: dict[str, type[EnrichError]] = {
    "02": Fatal,  # no data
    "03": Fatal,
    "08": Unreachable,  # connection; PgBouncer gives 08P01 to all that it cannot do now
    "09": BadRecord,  # a trigger refused
    "0A": ConfigError,  # feature not supported
    "0B": Fatal,
    "0F": Fatal,
    "0L": ConfigError,
    "0P": ConfigError,  # invalid role
    "0Z": Fatal,
    "10": Fatal,
    "20": Fatal,
    "21": BadRecord,  # cardinality: the same key twice in one statement
    "22": BadRecord,  # the value does not fit the column
    "23": BadRecord,  # a constraint refuses the row
    "24": Fatal,
    "25": Fatal,
    "26": Retryable,  # a prepared statement is gone: a pooler gave us another server connection
    "27": BadRecord,
    "28": ConfigError,  # user name or password
    "2B": ConfigError,
    "2D": Fatal,
    "2F": BadRecord,
    "34": Fatal,
    "38": BadRecord,
    "39": BadRecord,
    "3B": Fatal,
    "3D": ConfigError,  # no such database
    "3F": ConfigError,  # no such schema
    "40": Retryable,  # serialization failure, deadlock, a COMMIT whose outcome is unknown
    "42": ConfigError,  # no such table or column, no right to it
    "44": BadRecord,
    "53": Retryable,  # out of disk, memory or connections
    "54": BadRecord,  # too large
    "55": Retryable,  # locked
    "57": Retryable,  # cancelled, shutting down, starting up
    "58": Retryable,  # an I/O error of the server
    "72": Retryable,
    "F0": ConfigError,
    "HV": Fatal,
    "P0": BadRecord,  # raised by a function or trigger
    "XX": Fatal,
}

# Errors without a SQLSTATE: the driver's own, and a refused connection.
BY_DRIVER_CLASS: dict[type[Exception], type[EnrichError]] = {
    psycopg.OperationalError: Unreachable,
    errors.ConnectionTimeout: Unreachable,
    errors.CancellationTimeout: Unreachable,
    errors.PipelineAborted: Retryable,
    psycopg.DataError: BadRecord,
    psycopg.IntegrityError: BadRecord,
    psycopg.InterfaceError: Fatal,
    psycopg.InternalError: Fatal,
    psycopg.NotSupportedError: Fatal,
    psycopg.ProgrammingError: Fatal,
    # libpq's own, if the connection died: all errors of the server have a code.
    psycopg.DatabaseError: Unreachable,
    psycopg.Error: Fatal,
}

_REFUSED_LOGIN = re.compile(
    r"authentication failed|no pg_hba.conf entry|(role|database|user) .* does not exist|no password"
)
# A table was dropped or changed while the catalog was read. These texts are never translated.
_CHANGED_MEANWHILE = re.compile(
    r"could not open relation with OID|cache lookup failed for|tuple concurrently (updated|deleted)"
)
_NOT_NOW = re.compile(r"starting up|shutting down|in recovery|too many clients|remaining connection slots")

_NEXT_STEPS: dict[type[EnrichError], str] = {
    Unreachable: "check that PostgreSQL runs and that the dsn names it",
    ConfigError: "correct the dsn, the table or the user's rights",
}
_IN_USE = "another instance of this source reads it and goes on, or another source: then give each a `slot` of its own"

_QUOTED = re.compile(r"""(["'])(?:(?!\1).)*\1""", re.DOTALL)
_RAISED = re.compile(r"^PL/\w+ function \S+ line \d+ at \w+", re.MULTILINE)


def mapped(error: psycopg.Error, where: str | None = None) -> EnrichError:
    """The error of our tree for an error of psycopg. It must not contain values of rows: errors go into logs and DLQs,
    where equal texts are counted together."""
    kind = _kind(error)
    text = error.diag.message_primary or " ".join(str(error).split()) or type(error).__name__
    if issubclass(kind, BadRecord | RefusedForNow):
        text = _without_values(error, text)
    code = f" [{error.sqlstate}]" if error.sqlstate else ""
    next_step = _IN_USE if isinstance(error, errors.ObjectInUse) else _NEXT_STEPS.get(kind)
    return kind(f"PostgreSQL: {text}{code}", where=where, next_step=next_step)


def _without_values(error: psycopg.Error, text: str) -> str:
    code = error.sqlstate or ""
    if code[:2] in ("23", "44"):
        return text  # contains only names of constraints, tables and columns
    if code[:2] in ("09", "27", "2F", "38", "39", "P0"):
        # The text comes from the author of a trigger or a function, and may contain anything.
        raised = _RAISED.search(error.diag.context or "")
        return f"refused by {raised[0] if raised else 'a trigger or a function'}"
    return _QUOTED.sub("...", text).partition(": ")[0]


def _kind(error: psycopg.Error) -> type[EnrichError]:
    if error.sqlstate:
        if isinstance(error, errors.InternalError_) and _CHANGED_MEANWHILE.search(str(error)):
            return Retryable
        by_code = next((kind for cls, kind in _BY_CODE.items() if isinstance(error, cls)), None)
        return by_code or BY_CLASS.get(error.sqlstate[:2], Fatal)
    if isinstance(error, psycopg.OperationalError):
        if _REFUSED_LOGIN.search(str(error)):
            return ConfigError
        if _NOT_NOW.search(str(error)):
            return Retryable
    return next((BY_DRIVER_CLASS[cls] for cls in type(error).__mro__ if cls in BY_DRIVER_CLASS), Fatal)


@contextmanager
def postgres_errors(where: str | None = None) -> Iterator[None]:
    """Turns psycopg's errors inside the block into errors of our tree."""
    try:
        yield
    except psycopg.Error as error:
        raise mapped(error, where) from error
