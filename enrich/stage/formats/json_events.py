"""JSON events: fields are read by workers, objects are spliced into the original bytes, so that everything else passes
through unchanged."""

from collections.abc import Sequence
from typing import cast

from pyspark.sql import Column
from pyspark.sql import functions as sql
from pyspark.sql.types import StructType

from enrich.config import Columns
from enrich.stage.formats.event_format import KAFKA, missing
from enrich.stage.steps.leaving.why import NO_TEXT, Why
from enrich.stage.steps.reading import ReadJson
from enrich.stage.steps.step import Step

NO_OBJECT = "the event is not a JSON object"
_TIMES = "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX"


class JsonEvents:
    """Events with these fields. Other fields are never parsed."""

    written_fields = None

    def __init__(self, columns: Columns) -> None:
        self._columns = columns

    @property
    def schema(self) -> StructType:
        return cast(StructType, StructType.fromDDL(str(self._columns)))

    def read(self, fields: Sequence[str]) -> Sequence[Step]:
        return [ReadJson(self._columns.select(fields))]

    def reason(self) -> Column:
        is_text = sql.is_valid_utf8(sql.col(KAFKA.value).cast("string"))
        return missing().when(~is_text, NO_TEXT).otherwise(NO_OBJECT)

    @property
    def why(self) -> Why:
        return Why(NO_OBJECT, NO_TEXT)


def json_text(struct: Column) -> Column:
    """Null fields are written as null, times in UTC with microseconds."""
    return sql.to_json(struct, {"ignoreNullFields": "false", "timestampFormat": _TIMES})
