"""Events in Avro: decoded in Python a batch at a time, written as JSON."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sql
from pyspark.sql.functions import arrow_udf  # type: ignore[attr-defined] # missing in its stubs
from pyspark.sql.pandas.types import from_arrow_schema, from_arrow_type
from pyspark.sql.types import StructType

from enrich.codecs import BareAvro, CachedSchemas, FramedAvro
from enrich.codecs.avro.columns import columns_of
from enrich.config import from_wire
from enrich.stage.events.events import KAFKA, missing
from enrich.stage.events.json_events import json_text
from enrich.stage.task.failures import reported_to_driver
from enrich.stage.task.whole import USABLE
from stores.protocol import Decoder

_EVENT = "_event"


@dataclass(frozen=True)
class Bodies:
    """How the values are encoded. It travels with the tasks and contains secrets, like a `TaskSpec`."""

    schema: str
    """The reader schema."""
    registry_of: str | None = None
    """A pipeline as `enrich.config.to_wire` writes it. Set if each body is preceded by the id of its writer schema,
    which the host's agent finds in the pipeline's registry; None if bodies have no such prefix."""


class AvroEvents:
    """Events read as the columns of one schema. Raises ConfigError for a schema that columns cannot hold."""

    def __init__(self, bodies: Bodies) -> None:
        self._bodies = bodies
        self._columns = columns_of(bodies.schema)

    @property
    def schema(self) -> StructType:
        return from_arrow_schema(self._columns)

    @property
    def kept(self) -> Sequence[str]:
        return (_EVENT,)

    def read(self, events: DataFrame, fields: Sequence[str]) -> DataFrame:
        decode = arrow_udf(
            _decoding(self._bodies), from_arrow_type(pa.struct(list(self._columns)))
        ).asNondeterministic()
        read = events.select("*", decode(sql.col(KAFKA.value)).alias(_EVENT))
        event = sql.col(_EVENT)
        return read.select("*", event.isNotNull().alias(USABLE), *(event[name].alias(name) for name in fields))

    def reason(self) -> Column:
        schema = "its schema" if self._bodies.registry_of is None else "a schema in the registry"
        return missing().otherwise(f"the event is not an Avro body of {schema}")

    def output(self, objects: Sequence[Column]) -> Column:
        return json_text(sql.struct(sql.col(f"{_EVENT}.*"), *objects)).cast("binary")


def _decoding(bodies: Bodies) -> Callable[[Iterator[pa.Array]], Iterator[pa.Array]]:
    def decoded(batches: Iterator[pa.Array]) -> Iterator[pa.Array]:
        decoder = _decoder(bodies)
        for values in batches:
            # Avro takes an empty body for an event of a schema without fields. As in every format, it is not usable.
            with reported_to_driver():
                rows = decoder.decode(pc.if_else(pc.equal(pc.binary_length(values), 0), None, values)).rows
            yield rows

    return decoded


@cache  # a worker keeps it between tasks
def _decoder(bodies: Bodies) -> Decoder:
    columns = columns_of(bodies.schema)
    if bodies.registry_of is None:
        return BareAvro(columns, bodies.schema)
    # Imported in the worker only: the driver needs no agent.
    from enrich.host.reader.schemas import AgentSchemas

    return FramedAvro(columns, CachedSchemas(AgentSchemas(from_wire(bodies.registry_of))), bodies.schema)
