"""Maps the Redis client's errors to ours."""

import re
from collections.abc import Iterator
from contextlib import contextmanager

from redis import exceptions as redis_exceptions

from stores.errors import BadRecord, ConfigError, EnrichError, Fatal, Retryable, Unreachable

# The most specific class of an error decides. Every class of the client is listed, so that the exhaustive test fails if
# an upgrade adds a new one.
KINDS: dict[type[Exception], type[EnrichError]] = {
    redis_exceptions.AskError: Retryable,
    redis_exceptions.AuthenticationError: ConfigError,
    redis_exceptions.AuthenticationWrongNumberOfArgsError: ConfigError,
    redis_exceptions.AuthorizationError: ConfigError,
    redis_exceptions.BusyLoadingError: Unreachable,  # quick retries would only delay others
    redis_exceptions.ChildDeadlockedError: Fatal,
    redis_exceptions.ClusterCrossSlotError: ConfigError,  # of a node of a cluster that is taken for a single server
    redis_exceptions.ClusterDownError: Unreachable,
    redis_exceptions.ClusterError: Retryable,
    redis_exceptions.ConnectionError: Unreachable,
    redis_exceptions.CrossSlotTransactionError: Fatal,
    redis_exceptions.DataError: BadRecord,
    redis_exceptions.ExecAbortError: Retryable,
    redis_exceptions.ExternalAuthProviderError: ConfigError,
    redis_exceptions.IncorrectPolicyType: Fatal,
    redis_exceptions.InvalidPipelineStack: Fatal,
    redis_exceptions.InvalidResponse: Retryable,
    redis_exceptions.LockError: Retryable,
    redis_exceptions.LockNotOwnedError: Retryable,
    redis_exceptions.MasterDownError: Unreachable,
    redis_exceptions.MaxConnectionsError: Retryable,
    redis_exceptions.ModuleError: Fatal,
    redis_exceptions.MovedError: Retryable,
    redis_exceptions.NoPermissionError: ConfigError,
    redis_exceptions.NoScriptError: Retryable,  # the server restarted: load the script again
    redis_exceptions.NoSuchFieldsetError: Fatal,
    redis_exceptions.OutOfMemoryError: Retryable,
    redis_exceptions.PubSubError: Fatal,
    redis_exceptions.ReadOnlyError: Retryable,  # a failover is under way
    redis_exceptions.RedisClusterException: ConfigError,
    redis_exceptions.RedisError: Fatal,
    redis_exceptions.ResponseError: BadRecord,  # a wrong type under the key, a script that refuses: this key alone
    redis_exceptions.SlotNotCoveredError: Unreachable,
    redis_exceptions.TimeoutError: Unreachable,
    redis_exceptions.TryAgainError: Retryable,
    redis_exceptions.WatchError: Retryable,
}

# Error codes of commands inside a script: the client does not recognise them, since other text precedes them.
_CODES: tuple[tuple[re.Pattern[str], type[EnrichError]], ...] = (
    (re.compile(r"\b(OOM|READONLY|MISCONF|LOADING|NOREPLICAS|MASTERDOWN|CLUSTERDOWN|TRYAGAIN|BUSY)\b"), Retryable),
    (re.compile(r"\b(NOPERM|NOAUTH|WRONGPASS)\b"), ConfigError),
)

_HUNG_UP = "Connection closed by server"
"""From a Redis that is shutting down, or from a server that does not speak its protocol, such as PostgreSQL."""

# What the client says while nodes begin, and what it says of a server that is no part of a cluster.
_OF_NODES = ("Redis Cluster cannot be connected", "All slots are not covered", "could not agree on a valid slots cache")
_NO_CLUSTER = ("cluster support disabled", "Cluster mode is not enabled")

_OF_A_NODE = (redis_exceptions.AskError, redis_exceptions.ClusterCrossSlotError)
"""What a node of a cluster says of keys to one who takes it for a single server."""

_NEXT_STEPS: dict[type[EnrichError], str] = {
    Unreachable: "check that Redis runs and that the url names it",
    ConfigError: "correct the url (server, user name, password), or the user's rights",
}


def mapped(error: Exception, where: str | None = None) -> EnrichError:
    """The error of our tree for an error of the Redis client."""
    kind = next((KINDS[cls] for cls in type(error).__mro__ if cls in KINDS), Fatal)
    if type(error) is redis_exceptions.ResponseError:
        kind = next((other for code, other in _CODES if code.search(str(error))), kind)
    if type(error) is redis_exceptions.RedisClusterException and _is_coming_up(error):
        kind = Unreachable
    is_loading = isinstance(error, redis_exceptions.BusyLoadingError)
    next_step = "it answers once it has read its data" if is_loading else _NEXT_STEPS.get(kind)
    if type(error) is redis_exceptions.ConnectionError and str(error).startswith(_HUNG_UP):
        next_step = "if this stays so, something else listens there (a TLS port, another server): correct the url"
    if isinstance(error, _OF_A_NODE):
        next_step = (
            "a node of a Redis Cluster answers: write-back needs `cluster: true`, all else reads a single server"
        )
    told = f"the key is at another node, {error}" if isinstance(error, redis_exceptions.AskError) else str(error)
    return kind(f"Redis: {told}", where=where, next_step=next_step)


def _is_coming_up(error: Exception) -> bool:
    """Of what the client says of a cluster's nodes: whether it is no fault of the configuration."""
    text, cause = str(error), error.__cause__
    while isinstance(cause, Exception):
        if isinstance(mapped(cause), ConfigError):
            return False
        text, cause = f"{text} {cause}", cause.__cause__
    return any(some in text for some in _OF_NODES) and not any(some in text for some in _NO_CLUSTER)


@contextmanager
def redis_errors(where: str | None = None) -> Iterator[None]:
    """Turns the Redis client's errors inside the block into errors of our tree."""
    try:
        yield
    except tuple(KINDS) as error:
        raise mapped(error, where) from error
