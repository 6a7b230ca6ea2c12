"""Sources of the schemas of framed records, by schema id."""

from threading import Lock
from typing import Protocol

from cachetools import LRUCache

from enrich.base.errors import Retryable


class SchemaSource(Protocol):
    def get(self, schema_id: int) -> str:
        """The schema's JSON text, which never changes.

        Raises BadRecord for an unknown id, or a schema that is not Avro; Unreachable if the source does not answer in
        time; ConfigError if it refuses us.
        """


class CachedSchemas:
    """Asks another source once for each schema, and keeps the most recently used ones, but no errors. Thread-safe;
    tables may share it."""

    def __init__(self, source: SchemaSource, size: int = 1_000) -> None:
        self._source = source
        self._lock = Lock()
        self._kept: LRUCache[int, str] = LRUCache(size)

    def known(self, schema_id: int) -> str | None:
        """The schema, or None if it is not cached."""
        with self._lock:
            return self._kept.get(schema_id)

    def get(self, schema_id: int) -> str:
        text = self.known(schema_id)
        if text is not None:
            return text
        text = self._source.get(schema_id)
        with self._lock:
            self._kept[schema_id] = text
        return text


class NotAskedYet(Retryable):
    """The schema is not cached: a thread that may block has to fetch it."""


class KnownSchemas:
    """A `SchemaSource` that never blocks: it only returns what is in the cache."""

    def __init__(self, schemas: CachedSchemas) -> None:
        self._schemas = schemas

    def get(self, schema_id: int) -> str:
        text = self._schemas.known(schema_id)
        if text is None:
            raise NotAskedYet(f"schema id {schema_id} has not been asked for yet")
        return text
