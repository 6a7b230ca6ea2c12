"""Where the schemas of framed records come from: by the id that stands before each body."""

from collections import OrderedDict
from threading import Lock
from typing import Protocol

from enrich.base.errors import Retryable


class SchemaSource(Protocol):
    def get(self, schema_id: int) -> str:
        """The schema's JSON text, the same for ever.

        Raises BadRecord for an id that nobody has given out, or a schema that is no Avro; Unreachable when the source
        does not answer in time, and ConfigError when it will not answer us.
        """


class CachedSchemas:
    """Asks another source once for each schema, and keeps those that were used last. Errors are not kept. Tables and
    threads may share it."""

    def __init__(self, source: SchemaSource, size: int = 1_000) -> None:
        self._source = source
        self._size = size
        self._lock = Lock()
        self._kept: OrderedDict[int, str] = OrderedDict()

    def known(self, schema_id: int) -> str | None:
        """None: nobody has been asked for it yet."""
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
    """A schema has to be asked for, by somebody who may wait for the answer."""


class KnownSchemas:
    """A `SchemaSource` that answers at once or not at all: what others have asked `schemas` for."""

    def __init__(self, schemas: CachedSchemas) -> None:
        self._schemas = schemas

    def get(self, schema_id: int) -> str:
        text = self._schemas.known(schema_id)
        if text is None:
            raise NotAskedYet(f"schema id {schema_id} has not been asked for yet")
        return text
