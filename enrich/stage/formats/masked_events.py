"""Events that are masked before their fields are read: whatever they were encoded in, they are JSON from there on."""

from collections.abc import Sequence

from pyspark.sql import Column
from pyspark.sql.types import StructType

from enrich.stage.formats.event_format import EventFormat
from enrich.stage.steps.step import Step


class MaskedEvents:
    """`masked`: the format of events once `masking` has been done to them."""

    written_fields = None

    def __init__(self, masked: EventFormat, masking: Sequence[Step], original: EventFormat | None = None) -> None:
        """`original`: the format in which they come, if it is another one."""
        self._masked = masked
        self._masking = masking
        self._original = original or masked

    @property
    def schema(self) -> StructType:
        return self._masked.schema

    def read(self, fields: Sequence[str]) -> Sequence[Step]:
        return [*self._masking, *self._masked.read(fields)]

    def reason(self) -> Column:
        return self._original.reason()
