"""Redis tells which keys were written ("keyspace notifications"). These are hints: what happens while nobody is
connected is told to nobody, and nothing says that it was missed."""

import time
from typing import Any

import redis

from stores.errors import ConfigError, EnrichError, Retryable
from stores.external.redis.errors import redis_errors
from stores.external.redis.reading import pool_of

_MOST_KEYS = 100_000
_AT_ONCE = 10_000


class KeyNotifications:
    """Of the keys of one database that match a pattern. For one thread."""

    def __init__(self, url: str, pattern: str, *, events: str, where: str, stalled_s: float = 5.0) -> None:
        """`events`: the letters of `notify-keyspace-events` that the server needs. `where` appears in errors and must
        not contain a password."""
        self._pool = pool_of(url, stalled_s, where)
        self._start = b"__keyspace@%d__:" % int(self._pool.connection_kwargs.get("db") or 0)
        self._pattern = self._start + pattern.encode()
        self._events = events
        self._where = where
        self._stalled_s = stalled_s
        self._opened: Any = None
        self._is_refused = False
        self._keys: set[bytes] = set()

    def begin(self) -> str | None:
        """What happens from now on is heard; what was heard before is forgotten. Returns what is in the way of that:
        the server may not tell, or not everybody. Raises as `redis_errors` does if it does not answer."""
        # A new connection each time: one to a server that went silent would look as if nothing happened.
        self.close()
        self._is_refused = False
        client = redis.Redis(connection_pool=self._pool)
        try:
            with redis_errors(self._where):
                self._opened = client.pubsub()  # type: ignore[no-untyped-call] # redis left it so
                self._opened.psubscribe(self._pattern)
                if self._opened.get_message(timeout=self._stalled_s) is None:
                    raise Retryable("Redis does not answer to PSUBSCRIBE", where=self._where)
        except ConfigError as error:  # NOPERM: the user may read the keys, and not subscribe
            self.close()
            self._is_refused = True
            return f"{error.what}: changes are seen at each interval only"
        return self._lacking(client)

    def _lacking(self, client: redis.Redis) -> str | None:
        try:
            with redis_errors(self._where):
                told = str(client.config_get("notify-keyspace-events").get("notify-keyspace-events", ""))
        except EnrichError:
            return None  # many servers keep CONFIG from their users
        lacking = "".join(event for event in self._events if event not in told and (event == "K" or "A" not in told))
        if not lacking:
            return None
        wanted = "".join(dict.fromkeys(told + lacking))
        return (
            f"{self._where} does not tell which keys are written, so changes are seen at each interval only: "
            f"CONFIG SET notify-keyspace-events {wanted}"
        )

    def wait(self, seconds: float) -> bool:
        """Until something was heard, or so long; whether there is something to take. Raises Retryable if keys were
        written that nobody heard of: the connection broke, or there were more than are kept."""
        if self._is_refused:
            time.sleep(seconds)
            return False
        if self._opened is None:
            raise self._gap()
        try:
            message = self._opened.get_message(timeout=seconds)
            for _ in range(_AT_ONCE):
                if message is None:
                    break
                if message["type"] == "pmessage":
                    self._keys.add(message["channel"].removeprefix(self._start))
                message = self._opened.get_message()
        except redis.RedisError as error:
            self.close()
            raise self._gap() from error
        if len(self._keys) > _MOST_KEYS:
            self.close()
            raise self._gap()
        return bool(self._keys)

    def _gap(self) -> Retryable:
        return Retryable("keys may have been written that Redis did not tell of", where=self._where)

    def take(self) -> list[bytes]:
        """The keys that were heard of since the last call."""
        taken = [*self._keys]
        self._keys.clear()
        return taken

    def close(self) -> None:
        self._keys.clear()
        if self._opened is not None:
            self._opened.close()
            self._opened = None
            self._pool.disconnect()
