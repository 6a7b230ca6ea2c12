"""Connects to Redis: to one server, to a cluster, or to the master that sentinels name."""

from contextlib import closing
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import redis
from redis.backoff import NoBackoff
from redis.connection import parse_url
from redis.retry import Retry
from redis.sentinel import Sentinel

from stores.errors import ConfigError


@dataclass(frozen=True)
class RedisAddress:
    url: str
    """The url of the server, of a node of the cluster, or of a sentinel. May contain a password: never show it."""
    cluster: bool = False
    sentinel: str | None = None
    """The name of the master that the sentinel watches."""
    deadline_s: float = 5.0

    @property
    def shown(self) -> str:
        parts = urlsplit(self.url)
        host = parts.hostname or "localhost"
        shown = f"[{host}]" if ":" in host else host
        return f"Redis {shown}:{parts.port or 6379}" if parts.scheme != "unix" else "Redis"


def takes_anyone(address: RedisAddress) -> bool:
    """Whether the url has a password but the server requires none: then it accepts any client."""
    parts = urlsplit(address.url)
    if not parts.password or address.sentinel is not None:
        return False
    bare = urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))
    options: dict[str, Any] = {"socket_timeout": address.deadline_s, "socket_connect_timeout": 3.0}
    with closing(redis.Redis.from_url(bare, retry=Retry(NoBackoff(), 0), **options)) as client:
        try:
            return bool(client.ping())
        except redis.RedisError:
            return False


def connect(address: RedisAddress) -> Any:
    """A client that opens its connections on demand and never retries: that is up to the caller."""
    options: dict[str, Any] = {
        "socket_timeout": address.deadline_s,
        "socket_connect_timeout": min(address.deadline_s, 3.0),
        "socket_keepalive": True,
    }
    once = Retry(NoBackoff(), 0)
    try:
        if address.cluster:
            return redis.RedisCluster.from_url(address.url, **options)
        if address.sentinel is None:
            client = redis.Redis.from_url(address.url, retry=once, **options)
            pool = client.connection_pool
            pool.connection_class(**pool.connection_kwargs)  # checks the options and opens nothing
            return client
        return _master(address, {**options, "retry": once})
    except (TypeError, ValueError):
        raise ConfigError(
            "the client refuses the options of the url", where=address.shown, next_step="correct what follows its ?"
        ) from None  # the client's message contains their values


def _master(address: RedisAddress, options: dict[str, Any]) -> Any:
    """Of what the url says, TLS and its files are for the sentinel and the master; user and database for the master."""
    given: dict[str, Any] = {"port": 26379, **parse_url(address.url), **options}  # type: ignore[no-untyped-call] # redis left it so
    place = given.pop("host", "localhost"), given.pop("port")
    if given.pop("connection_class", None) is not None:
        given["ssl"] = True
    shared = {name: value for name, value in given.items() if name not in ("username", "password", "db")}
    sentinels = Sentinel([place], sentinel_kwargs=shared)  # type: ignore[no-untyped-call] # the same
    master = sentinels.master_for(address.sentinel, **given)  # type: ignore[no-untyped-call] # the same
    pool = master.connection_pool
    pool.connection_class(**pool.connection_kwargs)
    return master
