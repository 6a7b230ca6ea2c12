"""External stores (Redis, PostgreSQL) and files, for the sync service and the agent's loaders: the stream never calls
them.

`protocol.py` defines a versioned store: rows by key, each written only if it is newer. `RedisStore` and `PostgresStore`
implement it; one suite of tests runs over both. Drivers and their errors must not leave this package.
"""

from stores.external.postgres.store import PostgresStore
from stores.external.postgres.table import PostgresLocation
from stores.external.protocol import StoredRows, VersionedRows, VersionedStore, Written
from stores.external.redis.clients import RedisAddress
from stores.external.redis.store import RedisLocation, RedisStore

__all__ = [
    "PostgresLocation",
    "PostgresStore",
    "RedisAddress",
    "RedisLocation",
    "RedisStore",
    "StoredRows",
    "VersionedRows",
    "VersionedStore",
    "Written",
]
