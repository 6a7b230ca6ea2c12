"""Events in Avro: decoded by workers a batch at a time, written as JSON."""

from collections.abc import Sequence

from pyspark.sql import Column
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from enrich.codecs.avro.columns import columns_of
from enrich.stage.formats.event_format import missing
from enrich.stage.steps.leaving.why import Why
from enrich.stage.steps.reading import Bodies, ReadAvro
from enrich.stage.steps.step import Step


class AvroEvents:
    """Events read as the columns of one schema. Raises ConfigError for a schema that columns cannot hold."""

    def __init__(self, bodies: Bodies) -> None:
        self._bodies = bodies
        self._columns = columns_of(bodies.schema)

    @property
    def schema(self) -> StructType:
        return from_arrow_schema(self._columns)

    @property
    def written_fields(self) -> Sequence[str]:
        return tuple(str(name) for name in self._columns.names)

    def read(self, fields: Sequence[str]) -> Sequence[Step]:  # noqa: ARG002 - each has to be decoded to find the next
        return [ReadAvro(self._bodies)]

    def reason(self) -> Column:
        return missing().otherwise(self._misfit)

    @property
    def why(self) -> Why:
        return Why(self._misfit)

    @property
    def _misfit(self) -> str:
        schema = "its schema" if self._bodies.registry_of is None else "a schema in the registry"
        return f"the event is not an Avro body of {schema}"
