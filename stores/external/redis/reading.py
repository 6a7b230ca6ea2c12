"""Reads the keys of a Redis that match a pattern, with their values, in batches: all of them, or it raises.

Nothing is locked: each value is as of some moment during the reading.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from stores.errors import ConfigError, Retryable
from stores.external.redis.errors import redis_errors

_KEYS_A_CALL = 500
_FIXED = re.compile(r"(?:\\.|[^\\*?\[])*", re.DOTALL)

Value = bytes | Mapping[bytes, bytes]
"""A string's bytes, or the fields of a hash."""


@dataclass(frozen=True, slots=True)
class RedisEntries:
    """Keys and their values, and how many keys of other types there are, by type."""

    keys: Sequence[bytes]
    values: Sequence[Value]
    others: Mapping[str, int] = field(default_factory=dict)


class RedisReader:
    """Reads one database of one server."""

    def __init__(
        self,
        url: str,
        *,
        stopping: Callable[[], bool] = lambda: False,
        stalled_s: float = 5.0,
        where: str | None = None,
        most_bytes: int | None = None,
    ) -> None:
        """Every wait ends after `stalled_s` (Unreachable). `where` appears in errors and must not contain a password.
        `most_bytes`: of all keys, without what the pattern begins with; they are held in memory. None: of any number.

        Raises ConfigError if the url is not an address of a Redis.
        """
        self._stopping = stopping
        self._where = where
        self._most_bytes = most_bytes
        self._pool = pool_of(url, stalled_s, where)

    def entries(self, pattern: str | None = None) -> Iterator[RedisEntries]:
        """Each key once. Raises as `redis_errors` does, Retryable if the server was emptied meanwhile, ConfigError for
        more keys than may be held."""
        with redis_errors(self._where), closing(redis.Redis(connection_pool=self._pool)) as client:
            try:
                keys = self._keys(client, pattern)
                yield from self._read(client, keys)
                self._require_still_there(client, keys[:_KEYS_A_CALL])
            finally:
                self._pool.disconnect()

    def entries_of(self, keys: Sequence[bytes]) -> Iterator[RedisEntries]:
        """Of these keys, those that are there. Raises as `redis_errors` does."""
        with redis_errors(self._where), closing(redis.Redis(connection_pool=self._pool)) as client:
            yield from self._read(client, keys)

    def _read(self, client: Any, keys: Sequence[bytes]) -> Iterator[RedisEntries]:
        for start in range(0, len(keys), _KEYS_A_CALL):
            self._require_going_on()
            yield _entries(client, keys[start : start + _KEYS_A_CALL])

    def _keys(self, client: Any, pattern: str | None) -> list[bytes]:
        # SCAN may return a key again if Redis' hash table of keys grows or shrinks meanwhile.
        keys: dict[bytes, None] = {}
        beginning = len(fixed_beginning(pattern or "").encode())  # no part of a row's key
        cursor, size = -1, 0
        while cursor != 0:
            self._require_going_on()
            cursor, some = client.scan(max(cursor, 0), match=pattern, count=_KEYS_A_CALL)
            size += sum(len(key) - beginning for key in some if key not in keys)
            keys.update(dict.fromkeys(some))
            if self._most_bytes is not None and size > self._most_bytes:
                raise ConfigError(
                    f"the keys alone have more than {self._most_bytes >> 20} MiB ({len(keys):,} so far): too much to "
                    "read repeatedly",
                    where=self._where,
                    next_step="correct `pattern`, or let the sync service copy them into a compacted topic",
                )
        return list(keys)

    def _require_still_there(self, client: Any, first: Sequence[bytes]) -> None:
        """A FLUSHALL during the read would leave a part that looks complete. Then the first keys are gone too."""
        if first and client.exists(*first) < len(first) / 2:
            raise Retryable("most of the keys were deleted while they were read", where=self._where)

    def _require_going_on(self) -> None:
        if self._stopping():
            raise Retryable("reading Redis was stopped, because the process is stopping", where=self._where)


def pool_of(url: str, stalled_s: float, where: str | None) -> redis.ConnectionPool:
    """Its connections never retry, and wait for `stalled_s` at most. Raises ConfigError for a wrong url."""
    try:
        pool = redis.ConnectionPool.from_url(url)
        pool.connection_class(**pool.connection_kwargs)  # connects to nothing yet
    except (ValueError, TypeError, redis.RedisError):  # TypeError: an unknown setting after `?`
        # The client's text may quote a part of the address, and so of the password.
        raise ConfigError(
            "not an address of a Redis", where=where, next_step="write it as redis://user:password@host:6379/0"
        ) from None
    settings = {"socket_timeout": stalled_s, "socket_connect_timeout": stalled_s, "decode_responses": False}
    pool.connection_kwargs.update(settings, retry=Retry(NoBackoff(), 0), retry_on_error=[])
    return pool


def _entries(client: Any, keys: Sequence[bytes]) -> RedisEntries:
    found: dict[bytes, Value] = {}
    others: Counter[str] = Counter()
    # MGET answers nil for keys of other types, as for missing ones.
    unclear = []
    for key, value in zip(keys, client.mget(keys), strict=True):
        if value is None:
            unclear.append(key)
        else:
            found[key] = value
    types = _each(client, "type", unclear)
    hashes = [key for key, kind in zip(unclear, types, strict=True) if kind == b"hash"]
    others.update(kind.decode() for kind in types if kind not in (b"none", b"string", b"hash"))
    fields_of = zip(hashes, _each(client, "hgetall", hashes), strict=True)
    found.update({key: fields for key, fields in fields_of if fields})  # without fields: it was deleted just now
    return RedisEntries(list(found), list(found.values()), dict(others))


def _each(client: Any, command: str, keys: Sequence[bytes]) -> list[Any]:
    if not keys:
        return []
    pipeline = client.pipeline(transaction=False)
    for key in keys:
        getattr(pipeline, command)(key)
    return list(pipeline.execute())


def fixed_beginning(pattern: str) -> str:
    """The common prefix of all keys that match: the pattern up to its first special character."""
    fixed = _FIXED.match(pattern)
    return re.sub(r"\\(.)", r"\1", fixed[0] if fixed else "", flags=re.DOTALL)
