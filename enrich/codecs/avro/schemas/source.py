"""Sources of the schemas of framed records, by schema id."""

from collections import OrderedDict
from threading import Lock
from typing import Protocol

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
        self._size = size
        self._lock = Lock()
        self._kept: OrderedDict[int, str] = OrderedDict()

    def known(self, schema_id: int) -> str | None:
        """The schema, or None if it is not cached."""
        with self._lock:
            if schema_id in self._kept:
                self._kept.move_to_end(schema_id)
            return self._kept.get(schema_id)

    def get(self, schema_id: int) -> str:
        text = self.known(schema_id)
        if text is not None:
            return text
        text = self._source.get(schema_id)
        with self._lock:
            self._kept[schema_id] = text
            while len(self._kept) > self._size:
                self._kept.popitem(last=False)
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
