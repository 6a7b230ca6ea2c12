"""Reads the fields of events that expressions name, in each format."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache

import pyarrow as pa
import pyarrow.compute as pc

from enrich.base.errors import BadRecord, ConfigError
from enrich.codecs import BareAvro, CachedSchemas, FramedAvro, SchemaSource
from enrich.codecs.avro.columns import columns_of
from enrich.codecs.rows import valid_text
from enrich.config import EVERY_TOPIC, from_wire
from enrich.config import Columns as ColumnList
from enrich.stage.steps.by_topic import each_topic
from enrich.stage.steps.step import Columns, Work
from enrich.stage.task.columns import TOPIC, USABLE, VALUE
from enrich.stage.task.failures import reported_to_driver
from enrich.stage.task.pin import Pin
from stores.protocol import Decoder


@dataclass(frozen=True)
class ReadJson:
    """Other fields are never parsed."""

    fields: ColumnList
    needs: Collection[str] = (VALUE,)

    @property
    def makes(self) -> Mapping[str, pa.DataType]:
        return {USABLE: pa.bool_(), **{field.name: field.type for field in self.fields.arrow}}

    def begin(self, pin: Pin | None) -> Work:  # noqa: ARG002 - it reads no table
        from enrich.stage.events.fields import EventFields

        reader = EventFields(self.fields.arrow)

        def read(columns: Columns) -> Columns:
            usable, rows = reader.read(columns[VALUE])
            # flatten() makes all fields of a null event null, so that it asks for nothing.
            fields = zip(self.fields.names, rows.flatten(), strict=True)
            # A field that is missing from an event is null, whatever its declaration says.
            return {USABLE: pa.array(usable), **{name: field.cast(self.makes[name]) for name, field in fields}}

        return read


@dataclass(frozen=True)
class ReadPlain:
    """Text must be UTF-8."""

    name: str
    is_text: bool
    needs: Collection[str] = (VALUE,)

    @property
    def makes(self) -> Mapping[str, pa.DataType]:
        return {USABLE: pa.bool_(), self.name: pa.string() if self.is_text else pa.binary()}

    def begin(self, pin: Pin | None) -> Work:  # noqa: ARG002 - it reads no table
        return self._read

    def _read(self, columns: Columns) -> Columns:
        values = columns[VALUE]
        usable = pc.fill_null(pc.greater(pc.binary_length(values), 0), False)
        if self.is_text:
            usable = pc.and_(usable, pa.array(valid_text(values)))
        # What is no text must not stand below a null: not all that reads columns looks at their nulls first.
        kept = pc.if_else(usable, values, pa.scalar(b"", values.type)).cast(self.makes[self.name])
        return {USABLE: usable, self.name: pc.if_else(usable, kept, pa.scalar(None, kept.type))}


@dataclass(frozen=True)
class Bodies:
    """How Avro values are encoded. It travels with the tasks and contains secrets, like a `TaskSpec`."""

    schema: str
    """The reader schema."""
    registry_of: str | None = None
    """A pipeline as `enrich.config.to_wire` writes it. Set if each body is preceded by the id of its writer schema,
    which the host's agent finds in the pipeline's registry; None if bodies have no such prefix."""


@dataclass(frozen=True)
class ReadAvro:
    """All fields of the reader schema: each has to be decoded to find the next."""

    bodies: Bodies
    needs: Collection[str] = (VALUE,)

    @property
    def makes(self) -> Mapping[str, pa.DataType]:
        return {USABLE: pa.bool_(), **{field.name: field.type for field in columns_of(self.bodies.schema)}}

    def begin(self, pin: Pin | None) -> Work:  # noqa: ARG002 - it reads no table
        decoder = _decoder(self.bodies)

        def read(columns: Columns) -> Columns:
            rows = _decoded(decoder, columns[VALUE])
            names = [field.name for field in rows.type]
            return {USABLE: rows.is_valid(), **dict(zip(names, rows.flatten(), strict=True))}

        return read


@dataclass(frozen=True)
class WriteAsJson:
    """Events in Avro become the JSON that a stage would write of them; what cannot be read becomes empty."""

    bodies: Mapping[str, Bodies]
    """By topic; `*` is for all others."""
    registry_of: str | None = None
    """As in `Bodies`: events of topics that are not named are read by the schemas that they were written with."""
    needs: Collection[str] = (VALUE, TOPIC)

    @property
    def makes(self) -> Mapping[str, pa.DataType]:
        return {VALUE: pa.binary()}

    def begin(self, pin: Pin | None) -> Work:  # noqa: ARG002 - it reads no table
        return lambda columns: {VALUE: each_topic(columns[TOPIC], [columns[VALUE]], self._written)}

    def _written(self, topic: str, columns: Sequence[pa.Array]) -> pa.BinaryArray:
        (values,) = columns
        bodies = self.bodies.get(topic, self.bodies.get(EVERY_TOPIC))
        return self._as_written(values) if bodies is None else self._read(values, bodies)

    def _as_written(self, values: pa.BinaryArray) -> pa.BinaryArray:
        from enrich.codecs.avro.decoder import schema_ids

        made, ids = _unread(values), schema_ids(values)
        for schema_id in ids.unique().drop_null().to_pylist():
            own = pc.fill_null(pc.equal(ids, schema_id), False)
            with reported_to_driver():
                schema = _schema(self.registry_of or "", schema_id)
            if schema is not None:
                made = pc.replace_with_mask(made, own, self._read(values.filter(own), Bodies(schema, self.registry_of)))
        return made

    @staticmethod
    def _read(values: pa.BinaryArray, bodies: Bodies) -> pa.BinaryArray:
        from enrich.stage.events.text import json_text, object_of

        rows = _decoded(_decoder(bodies), values)
        texts = object_of({each.name: json_text(rows.field(number)) for number, each in enumerate(rows.type)})
        return pc.if_else(rows.is_valid(), texts, _unread(values))


def _decoded(decoder: Decoder, values: pa.BinaryArray) -> pa.StructArray:
    """Null where a value is no body."""
    with reported_to_driver():
        # Avro takes an empty body for an event of a schema without fields. As in every format, it is not usable.
        return decoder.decode(pc.if_else(pc.equal(pc.binary_length(values), 0), None, values)).rows


def _unread(values: pa.BinaryArray) -> pa.BinaryArray:
    """Empty, but for tombstones."""
    return pc.if_else(values.is_valid(), pa.scalar(b""), pa.scalar(None, pa.binary()))


def _schema(pipeline: str, schema_id: int) -> str | None:
    """None for an id that the registry does not know, or a schema that is none of records or has no columns. Raises
    ConfigError if the registry answers anything else: the batch is tried again."""
    try:
        schema = _agent_schemas(pipeline).get(schema_id)
    except BadRecord:
        return None  # and is asked again for the next batch: the schema may be registered later
    return schema if _has_columns(schema) else None


@lru_cache(1_000)  # only a bound
def _has_columns(schema: str) -> bool:
    try:
        columns_of(schema)
    except ConfigError:
        return False
    return True


@cache
def _agent_schemas(pipeline: str) -> SchemaSource:
    # Imported in the worker only: the driver needs no agent.
    from enrich.host.reader.schemas import AgentSchemas

    return CachedSchemas(AgentSchemas(from_wire(pipeline)))


@cache  # a worker keeps it between tasks
def _decoder(bodies: Bodies) -> Decoder:
    columns = columns_of(bodies.schema)
    if bodies.registry_of is None:
        return BareAvro(columns, bodies.schema)
    return FramedAvro(columns, _agent_schemas(bodies.registry_of), bodies.schema)
