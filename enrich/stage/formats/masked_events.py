"""Events that are masked before their fields are read: whatever they were encoded in, they are JSON from there on."""

from collections.abc import Mapping, Sequence

import pyarrow as pa
from pyspark.sql import Column
from pyspark.sql.types import StructType

from enrich.codecs.avro.columns import columns_of
from enrich.config import Classification, Columns, Masking
from enrich.config.sections.masks.section import TO_TEXT
from enrich.stage.formats.event_format import EventFormat, missing
from enrich.stage.steps.leaving.why import Why
from enrich.stage.steps.step import Step


class MaskedEvents:
    """`masked`: the format of events once `masking` has been done to them."""

    written_fields = None

    def __init__(self, masked: EventFormat, masking: Sequence[Step], unreadable: str | None = None) -> None:
        """`unreadable`: why an event cannot be read, if it comes in another format."""
        self._masked = masked
        self._masking = masking
        self._unreadable = unreadable

    @property
    def schema(self) -> StructType:
        return self._masked.schema

    def read(self, fields: Sequence[str]) -> Sequence[Step]:
        return [*self._masking, *self._masked.read(fields)]

    def reason(self) -> Column:
        return self._masked.reason() if self._unreadable is None else missing().otherwise(self._unreadable)

    @property
    def why(self) -> Why:
        return self._masked.why if self._unreadable is None else Why(self._unreadable)


def masked_columns(schemas: Mapping[str, str], classes: Classification) -> Columns:
    """The fields that are left of the Avro schemas of some topics. One that is of several types in them is text."""
    found: dict[str, pa.DataType] = {}
    for topic, schema in schemas.items():
        masks = classes.of(topic)
        for column in columns_of(schema):
            masking = masks.of(column.name).masking
            if masking is not Masking.withhold:
                kind = pa.string() if masking in TO_TEXT else column.type
                found[column.name] = kind if found.get(column.name, kind) == kind else pa.string()
    return Columns.from_arrow(pa.schema(list(found.items())))
