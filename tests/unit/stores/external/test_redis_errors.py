import inspect

import pytest
from redis import exceptions

from stores.errors import BadRecord, ConfigError, Fatal, Retryable, Unreachable
from stores.external.redis.errors import KINDS, redis_errors

CLASSES = {cls for _, cls in inspect.getmembers(exceptions, inspect.isclass) if issubclass(cls, Exception)}


def test_every_error_class_of_the_client_is_named():
    assert set(KINDS) == CLASSES


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (exceptions.ConnectionError("refused"), Unreachable),
        (exceptions.AuthenticationError("bad password"), ConfigError),  # although it is a ConnectionError
        (exceptions.BusyLoadingError("loading"), Unreachable),
        (exceptions.ReadOnlyError("replica"), Retryable),
        (exceptions.ResponseError("WRONGTYPE"), BadRecord),
        (exceptions.PubSubError("?"), Fatal),
        (exceptions.MovedError("3999 127.0.0.1:6381"), Retryable),
        (exceptions.ClusterCrossSlotError("Keys in request don't hash to the same slot"), ConfigError),
        # As Redis 6 and 7 tell what a script ran into.
        (exceptions.ResponseError("Error running script (call to f_1): @user_script:1: -OOM command not"), Retryable),
        (exceptions.ResponseError("Error running script (call to f_1): @user_script:1: -READONLY You"), Retryable),
        (exceptions.ResponseError("MISCONF Redis is configured to save RDB snapshots"), Retryable),
        (exceptions.ResponseError("The user executing the script can't run this command: NOPERM"), ConfigError),
    ],
)
def test_an_error_becomes_what_the_caller_should_do_and_says_where(error, kind):
    with pytest.raises(kind) as raised, redis_errors("key user:1"):
        raise error
    assert type(raised.value) is kind
    assert raised.value.where == "key user:1"


def test_a_class_that_is_new_is_treated_as_its_parent():
    class Newer(exceptions.ReadOnlyError):
        pass

    with pytest.raises(Retryable), redis_errors():
        raise Newer("?")
