"""Places in real stores, one for each kind of row that the contract holds for."""

import itertools
import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, replace
from typing import Any

import psycopg
import pyarrow as pa
import redis

from enrich.dev import Addresses
from stores.external import (
    PostgresLocation,
    PostgresStore,
    RedisAddress,
    RedisLocation,
    RedisStore,
    VersionedRows,
    VersionedStore,
)

ROW = pa.struct([("plan", pa.string()), ("rps", pa.int32())])
RELEASED = ("redis_hash", "redis_json", "postgres_soft_released", "postgres_hard_released")
"""Places that keep releases."""
UNRELEASED = ("postgres_soft", "postgres_hard")
"""Tables without a column for them."""
KINDS = (*RELEASED, *UNRELEASED)
_NUMBERS = itertools.count()

Row = tuple[int, tuple[str | None, int | None]]
"""Version and columns."""


@dataclass(frozen=True)
class Place:
    """A store, and what is in it as an independent client sees it."""

    kind: str
    store: VersionedStore
    living: Callable[[], dict[str, Row]]
    another: Callable[[], VersionedStore]
    """One more connection to the same place."""


@contextmanager
def new_place(kind: str, stack: Addresses) -> Iterator[Place]:
    name = f"c{next(_NUMBERS)}"
    assert stack.redis_url is not None and stack.postgres_dsn is not None
    with ExitStack() as held:
        if kind.startswith("redis"):
            yield _redis_place(kind, name, stack.redis_url, held)
        else:
            yield _postgres_place(kind, name, stack.postgres_dsn, held)


def rows(*given: tuple[str, int, tuple[str | None, int | None] | None]) -> VersionedRows:
    """Key, version, and the columns or None for a deleted key."""
    values = [None if row is None else dict(zip(("plan", "rps"), row, strict=True)) for _, _, row in given]
    return VersionedRows(
        pa.array([key.encode() for key, _, _ in given], pa.binary()),
        pa.array([version for _, version, _ in given], pa.int64()),
        pa.array(values, ROW),
    )


def released(*given: tuple[str, int, int, tuple[str | None, int | None] | None]) -> VersionedRows:
    """Key, version, release, and the columns or None for a deleted key."""
    made = rows(*((key, version, row) for key, version, _, row in given))
    return replace(made, releases=pa.array([release for _, _, release, _ in given], pa.int64()))


def _redis_place(kind: str, name: str, url: str, held: ExitStack) -> Place:
    client: Any = held.enter_context(closing(redis.Redis.from_url(url, decode_responses=True)))
    place = RedisLocation(f"{name}:{{key}}:x", ["plan", "rps"], as_json=kind == "redis_json")

    def living() -> dict[str, Row]:
        found = {}
        for stored in client.scan_iter(f"{name}:*", count=1000):
            row = client.hgetall(stored) if kind == "redis_hash" else json.loads(client.get(stored))
            if "_deleted" not in row:
                rps = None if row.get("rps") is None else int(row["rps"])
                found[stored[len(name) + 1 : -2]] = (int(row["_version"]), (row.get("plan"), rps))
        return found

    def store() -> VersionedStore:
        return held.enter_context(closing(RedisStore(RedisAddress(url), place)))

    return Place(kind, store(), living, store)


def _postgres_place(kind: str, name: str, dsn: str, held: ExitStack) -> Place:
    soft, release = "soft" in kind, "release" if kind in RELEASED else None
    connection: Any = held.enter_context(psycopg.connect(dsn, autocommit=True))
    mark = (", deleted boolean NOT NULL" if soft else "") + (", release bigint" if release else "")
    connection.execute(f"CREATE TABLE {name} (id text PRIMARY KEY, plan text, rps int, version bigint NOT NULL{mark})")
    columns, deleted = {"plan": "plan", "rps": "rps"}, "deleted" if soft else None
    place = PostgresLocation(name, ["id"], columns, deleted_column=deleted, release_column=release)
    read = f"SELECT id, version, plan, rps FROM {name} {'WHERE NOT deleted' if soft else ''}"  # noqa: S608 - our name

    def living() -> dict[str, Row]:
        return {key: (version, (plan, rps)) for key, version, plan, rps in connection.execute(read)}

    def store() -> VersionedStore:
        return held.enter_context(closing(PostgresStore(dsn, place)))

    return Place(kind, store(), living, store)
