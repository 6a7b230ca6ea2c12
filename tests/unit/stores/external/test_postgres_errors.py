import inspect

import psycopg
import pytest
from psycopg import errors

from stores.errors import BadRecord, ConfigError, Fatal, RefusedForNow, Retryable, TooSlow, Unreachable
from stores.external.postgres.errors import BY_CLASS, BY_DRIVER_CLASS, mapped, postgres_errors

CLASSES = [cls for _, cls in inspect.getmembers(errors, inspect.isclass) if issubclass(cls, psycopg.Error)]
CODED = [cls for cls in CLASSES if isinstance(vars(cls).get("sqlstate"), str)]


def test_every_class_of_sqlstates_is_named():
    assert {str(cls.sqlstate)[:2] for cls in CODED} == set(BY_CLASS)


def test_every_error_of_the_driver_without_a_sqlstate_is_named():
    plain = {cls for cls in CLASSES if cls not in CODED and not cls.__name__.startswith("_")}
    assert plain == set(BY_DRIVER_CLASS)


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (errors.SerializationFailure("x"), Retryable),
        (errors.DeadlockDetected("x"), Retryable),
        (errors.StatementCompletionUnknown("x"), Retryable),
        (errors.ReadOnlySqlTransaction("x"), Retryable),
        (errors.NotNullViolation("x"), BadRecord),
        (errors.ForeignKeyViolation("x"), RefusedForNow),
        (errors.RaiseException("x"), RefusedForNow),
        (errors.NumericValueOutOfRange("x"), BadRecord),
        (errors.UndefinedTable("x"), ConfigError),
        (errors.InsufficientPrivilege("x"), ConfigError),
        (errors.ConnectionFailure("x"), Unreachable),
        (errors.DiskFull("x"), Retryable),
        (errors.ProtocolViolation("server conn crashed?"), Unreachable),  # PgBouncer's
        (errors.TransactionTimeout("x"), Retryable),
        (errors.IdleInTransactionSessionTimeout("x"), Retryable),
        (errors.InternalError_("could not open relation with OID 16389"), Retryable),
        (errors.InternalError_("x"), Fatal),
        (errors.IndexCorrupted("x"), Fatal),
        (errors.QueryCanceled("x"), TooSlow),
        (errors.LockNotAvailable("x"), Unreachable),
        (errors.SyntaxError("x"), BadRecord),
        (errors.StatementTooComplex("x"), BadRecord),
        (psycopg.OperationalError("connection refused"), Unreachable),
        (psycopg.OperationalError('FATAL:  password authentication failed for user "u"'), ConfigError),
        (psycopg.OperationalError('FATAL:  database "d" does not exist'), ConfigError),
        (psycopg.OperationalError("FATAL:  the database system is starting up"), Retryable),
        (psycopg.DatabaseError("server closed the connection unexpectedly"), Unreachable),
        (psycopg.InterfaceError("x"), Fatal),
    ],
    ids=str,
)
def test_an_error_becomes_what_the_caller_should_do_and_says_where(error, kind):
    with pytest.raises(kind) as raised, postgres_errors("table users"):
        raise error
    assert type(raised.value) is kind
    assert raised.value.where == "table users"


def test_the_code_is_told_for_those_who_look_it_up():
    assert "[23502]" in str(mapped(errors.NotNullViolation("x")))


def test_a_slot_that_is_in_use_may_be_another_source_s():
    found = mapped(errors.ObjectInUse("replication slot is active"))
    assert type(found) is Retryable
    assert "give each a `slot` of its own" in str(found.next_step)
