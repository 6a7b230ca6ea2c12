"""Events that are text or bytes, with one field."""

from collections.abc import Sequence

from pyspark.sql import Column
from pyspark.sql.types import BinaryType, StringType, StructType

from enrich.stage.formats.event_format import missing
from enrich.stage.steps.leaving.why import NO_TEXT, Why
from enrich.stage.steps.reading import ReadPlain
from enrich.stage.steps.step import Step

_FIELD = "value"


class PlainEvents:
    """Text must be UTF-8. Bytes are written as base64."""

    written_fields = (_FIELD,)

    def __init__(self, *, is_text: bool) -> None:
        self._is_text = is_text

    @property
    def schema(self) -> StructType:
        return StructType().add(_FIELD, StringType() if self._is_text else BinaryType())

    def read(self, fields: Sequence[str]) -> Sequence[Step]:  # noqa: ARG002 - there is one
        return [ReadPlain(_FIELD, self._is_text)]

    def reason(self) -> Column:
        return missing().otherwise(NO_TEXT)

    @property
    def why(self) -> Why:
        return Why(NO_TEXT)
