"""Bodies of one Avro record each: whole, and of a schema that is known."""

import threading
import time

import pyarrow as pa

from edge_service.ingest.reading.formats import TYPES, FetchFirst, SingleBodies
from enrich.base.errors import BadRecord, ConfigError
from enrich.codecs import BareAvro, CachedSchemas, FramedAvro, KnownSchemas, NotAskedYet, SchemaSource
from enrich.config import Format, Framing, Ingest


class AvroBodies(SingleBodies):
    """See `formats.Bodies`."""

    def __init__(self, entry: Ingest, schemas: SchemaSource | None) -> None:
        """Raises ConfigError if there is no schema, or one that cannot be used."""
        super().__init__(TYPES[Format.avro], self._why_wrong)
        self._schemas = None if schemas is None else CachedSchemas(schemas)
        self._unknown = _Unknown()
        schema, nothing = None if entry.schema_ is None else str(entry.schema_), pa.schema([])
        if entry.framing is Framing.confluent:
            if self._schemas is None:
                raise ConfigError("confluent framing needs a registry", next_step="set kafka.registry.url")
            self._decoder: FramedAvro | BareAvro = FramedAvro(nothing, KnownSchemas(self._schemas), schema)
        elif schema is not None:
            self._decoder = BareAvro(nothing, schema)
        else:
            raise ConfigError("bare avro bodies need a schema", next_step="give the entry a schema or a file")

    def fetch(self, what: int) -> None:
        assert self._schemas is not None  # noqa: S101 - only framed bodies ask
        try:
            self._schemas.get(what)
        except BadRecord as error:
            self._unknown.add(what, error.what)  # without the registry's address

    def _why_wrong(self, body: bytes) -> str | None:
        try:
            return next(iter(self._decoder.decode(pa.array([body], pa.binary())).bad.values()), None)
        except NotAskedYet:
            schema_id = int.from_bytes(body[1:5], "big")
            reason = self._unknown.reason(schema_id)
            if reason is None:
                raise FetchFirst(schema_id) from None
            return reason


class _Unknown:
    """Ids that the registry did not know, for a moment: a sender that repeats one does not ask it each time."""

    _KEEP_S = 2.0
    _MOST = 1_000

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._reasons: dict[int, tuple[float, str]] = {}

    def add(self, schema_id: int, reason: str) -> None:
        with self._lock:
            if len(self._reasons) >= self._MOST:
                self._reasons.clear()
            self._reasons[schema_id] = time.monotonic() + self._KEEP_S, reason

    def reason(self, schema_id: int) -> str | None:
        with self._lock:
            until, reason = self._reasons.get(schema_id, (0.0, ""))
        return reason if time.monotonic() < until else None
