"""Reads the fields of events that expressions name, in each format."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import cache

import pyarrow as pa
import pyarrow.compute as pc

from enrich.codecs import BareAvro, CachedSchemas, FramedAvro
from enrich.codecs.avro.columns import columns_of
from enrich.codecs.rows import valid_text
from enrich.config import Columns as ColumnList
from enrich.config import from_wire
from enrich.stage.steps.step import Columns, Work
from enrich.stage.task.columns import USABLE, VALUE
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
            values = columns[VALUE]
            # Avro takes an empty body for an event of a schema without fields. As in every format, it is not usable.
            with reported_to_driver():
                rows = decoder.decode(pc.if_else(pc.equal(pc.binary_length(values), 0), None, values)).rows
            names = [field.name for field in rows.type]
            return {USABLE: rows.is_valid(), **dict(zip(names, rows.flatten(), strict=True))}

        return read


@cache  # a worker keeps it between tasks
def _decoder(bodies: Bodies) -> Decoder:
    columns = columns_of(bodies.schema)
    if bodies.registry_of is None:
        return BareAvro(columns, bodies.schema)
    # Imported in the worker only: the driver needs no agent.
    from enrich.host.reader.schemas import AgentSchemas

    return FramedAvro(columns, CachedSchemas(AgentSchemas(from_wire(bodies.registry_of))), bodies.schema)
