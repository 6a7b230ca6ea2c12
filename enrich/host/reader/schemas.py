"""Avro schemas for all readers of a host: only the agent asks the registry, once for each schema id."""

import time
from collections.abc import Callable
from threading import Lock

from enrich.base.errors import BadRecord, Unreachable
from enrich.codecs import CachedSchemas, SchemaSource, schemas_of
from enrich.config import Pipeline
from enrich.host.ipc.leases import grandparent
from enrich.host.ipc.requests import SCHEMAS, NoAnswer, ask
from enrich.host.ipc.store_paths import paths_of
from enrich.host.reader.spawn import ensure_agent

_DEADLINE_S = 30.0
_LOOK_EVERY_S = 0.05
# Must be longer than the agent waits for the registry.
_PATIENCE_S = 15.0


class AgentSchemas:
    """A reader's `SchemaSource`. Starts the agent when there is none. It caches nothing: put a cache in front of it."""

    def __init__(self, pipeline: Pipeline, *, holder: Callable[[], int] = grandparent) -> None:
        self._pipeline = pipeline
        self._folder = paths_of(pipeline).folder
        self._holder = holder

    def get(self, schema_id: int) -> str:
        end = time.monotonic() + _DEADLINE_S
        while True:
            ensure_agent(self._pipeline, holder=self._holder)
            try:
                return ask(self._folder, "GET", f"{SCHEMAS}{schema_id}", patience_s=_PATIENCE_S).decode()
            except NoAnswer as error:
                # The agent is just ending, or it has started and does not listen yet.
                if time.monotonic() > end:
                    raise Unreachable(error.what, where=error.where, next_step=error.next_step) from error
                time.sleep(_LOOK_EVERY_S)


class SchemaDesk:
    """The agent's side. Asks the registry one question at a time: those who waited find the answer in the cache."""

    def __init__(self, pipeline: Pipeline) -> None:
        self._schemas: SchemaSource | None = schemas_of(pipeline.kafka.registry)
        self._lock = Lock()

    def answer(self, schema_id: str) -> bytes:
        """Raises as `SchemaSource.get` does."""
        if self._schemas is None or not schema_id.isdigit():
            raise BadRecord(f"{schema_id[:20]} is not a schema id, or the pipeline has no registry")
        with self._lock:
            return self._schemas.get(int(schema_id)).encode()


def host_schemas(pipeline: Pipeline, *, holder: Callable[[], int] = grandparent) -> SchemaSource | None:
    """The schemas that readers decode with; None if the pipeline has no registry."""
    return None if pipeline.kafka.registry is None else CachedSchemas(AgentSchemas(pipeline, holder=holder))
