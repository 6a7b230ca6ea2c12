"""Two routes must not write to the same keys or table: each would take the other's rows for its own."""

import re
from collections.abc import Iterator, Mapping
from urllib.parse import parse_qsl, urlsplit

from enrich.config.messages.problems import Finding, Path
from enrich.config.sections.sync.targets import PostgresTarget, RedisForm, RedisTarget
from enrich.config.sections.sync.writeback import SyncWriteback

RESERVED_KEYS = "enrich:sync:"
"""Redis keys with this prefix are the sync service's own notes."""
OWN_TABLES = ("enrich_sync_notes", "enrich_sync_markers")

_SETTING = re.compile(r"(\w+)\s*=\s*('(?:\\.|[^'\\])*'|\S+)")
_PART = re.compile(r'"(?:[^"]|"")*"|[^."]+')
_OF_A_NAME = re.compile(r"[A-Za-z0-9._-]*")
_HERE = {"127.0.0.1": "localhost", "::1": "localhost"}

TextPosition = tuple[str, ...]


def target_rules(routes: Mapping[str, SyncWriteback], here: Path) -> Iterator[Finding]:
    """`here` is where the routes stand."""
    earlier: list[tuple[str, SyncWriteback]] = []
    for name, route in routes.items():
        at = (*here, name, "to")
        if route.to.redis is not None:
            yield from _own_keys(route.to.redis, (*at, "redis"))
        if route.to.postgres is not None and _table(route.to.postgres)[-1] in OWN_TABLES:
            message = f"{route.to.postgres.table} is where the sync service keeps what it must remember"
            yield Finding((*at, "postgres", "table"), message)
        for other, before in earlier:
            yield from _met(route, at, other, before, here)
        earlier.append((name, route))


def _own_keys(redis: RedisTarget, at: Path) -> Iterator[Finding]:
    before, _, after = redis.key.partition("{key}")
    if redis.as_ is RedisForm.json and RESERVED_KEYS.startswith(before) and _OF_A_NAME.fullmatch(after):
        message = f"also matches the keys {RESERVED_KEYS}..., in which the sync service keeps what it must remember; "
        yield Finding((*at, "key"), f"{message}begin it with a word of its own: user:{{key}}", about=((*at, "as"),))
    elif before.startswith(RESERVED_KEYS):
        yield Finding((*at, "key"), f"keys that begin with {RESERVED_KEYS} are the sync service's own")


def _met(route: SyncWriteback, at: Path, other: str, before: SyncWriteback, here: Path) -> Iterator[Finding]:
    redis, postgres = route.to.redis, route.to.postgres
    if redis is not None and before.to.redis is not None:
        if _server(redis) == _server(before.to.redis) and _may_meet(redis.key, before.to.redis.key):
            what = f"{redis.key} and {before.to.redis.key} of the route {other} can make the same key"
            message = f"{what}: each would take the other's rows for its own; begin them with different words"
            yield Finding((*at, "redis", "key"), message, about=((*here, other, "to", "redis", "key"),))
    elif postgres is not None and before.to.postgres is not None:
        same = _database(postgres) == _database(before.to.postgres)
        if same and _table(postgres) == _table(before.to.postgres):
            message = f"{postgres.table} is also the table of the route {other}: each would delete the other's rows"
            yield Finding((*at, "postgres", "table"), message, about=((*here, other, "to", "postgres", "table"),))


def _may_meet(one: str, another: str) -> bool:
    """Whether some key has the form of both templates."""
    (before, _, after), (before_other, _, after_other) = one.partition("{key}"), another.partition("{key}")
    begins = before.startswith(before_other) or before_other.startswith(before)
    return begins and (after.endswith(after_other) or after_other.endswith(after))


def _server(redis: RedisTarget) -> TextPosition:
    url = redis.url.get_secret_value()
    try:
        parts = urlsplit(url)
        port = str(parts.port or 6379)
    except ValueError:  # a password with signs of its own; the driver will say it
        return (url,)
    if parts.scheme == "unix":
        return ("unix", parts.path, parts.query)
    database = dict(parse_qsl(parts.query)).get("db") or parts.path.strip("/") or "0"
    return (_host(parts.hostname), port, "0" if redis.cluster else database, redis.sentinel or "")


def _database(postgres: PostgresTarget) -> TextPosition:
    dsn = postgres.dsn.get_secret_value()
    if "://" not in dsn:
        given = {name: value.strip("'") for name, value in _SETTING.findall(dsn)}
    else:
        try:
            parts = urlsplit(dsn)
            port = str(parts.port or "")
        except ValueError:
            return (dsn,)
        found = {"host": parts.hostname, "port": port, "dbname": parts.path.strip("/"), "user": parts.username}
        given = {name: value for name, value in found.items() if value} | dict(parse_qsl(parts.query))
    database = given.get("dbname") or given.get("user", "")
    others = (given.get(name, "") for name in ("hostaddr", "service"))
    return (_host(given.get("host")), given.get("port", "5432"), database, *others)


def _table(postgres: PostgresTarget) -> TextPosition:
    """As PostgreSQL reads the name: small letters unless quoted."""
    found = _PART.findall(postgres.table.strip())
    parts = [part[1:-1].replace('""', '"') if part.startswith('"') else part.strip().lower() for part in found]
    return tuple(parts[1:] if len(parts) == 2 and parts[0] == "public" else parts) or ("",)


def _host(name: str | None) -> str:
    name = (name or "localhost").lower()
    return _HERE.get(name, name)
