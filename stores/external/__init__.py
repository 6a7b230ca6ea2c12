"""External stores (Redis, PostgreSQL). For the sync service and the agent's loaders: the stream never calls them.

`protocol.py` says what a versioned store is: rows under keys, written only where they are newer. `RedisStore` and
`PostgresStore` are the two there are; one suite of tests runs over both. Drivers and their errors stay in this folder.
"""

from stores.external.postgres.store import PostgresStore
from stores.external.postgres.table import PostgresPlace
from stores.external.protocol import LARGEST_VERSION, StoredRows, VersionedRows, VersionedStore, Written
from stores.external.redis.clients import RedisAddress
from stores.external.redis.store import RedisPlace, RedisStore

__all__ = [
    "LARGEST_VERSION",
    "PostgresPlace",
    "PostgresStore",
    "RedisAddress",
    "RedisPlace",
    "RedisStore",
    "StoredRows",
    "VersionedRows",
    "VersionedStore",
    "Written",
]
