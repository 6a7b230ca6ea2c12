"""Events that are a single text or byte string: the field `value`, and a member of that name in the output."""

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sql
from pyspark.sql.types import BinaryType, StringType, StructType

from enrich.stage.events.events import KAFKA, missing
from enrich.stage.events.json_events import json_text
from enrich.stage.task.whole import USABLE

_FIELD = "value"


class PlainEvents:
    """Text must be UTF-8. Bytes are written as base64."""

    def __init__(self, *, is_text: bool) -> None:
        self._is_text = is_text

    @property
    def schema(self) -> StructType:
        return StructType().add(_FIELD, StringType() if self._is_text else BinaryType())

    @property
    def kept(self) -> Sequence[str]:
        return ()

    def read(self, events: DataFrame, fields: Sequence[str]) -> DataFrame:
        value = sql.col(KAFKA.value)
        usable = value.isNotNull() & (sql.length(value) > 0)
        if self._is_text:
            usable = usable & sql.is_valid_utf8(value.cast("string"))
        read = events.select("*", sql.coalesce(usable, sql.lit(False)).alias(USABLE))
        return read.select("*", *(sql.when(sql.col(USABLE), self._value()).alias(name) for name in fields))

    def reason(self) -> Column:
        return missing().otherwise("the event is not UTF-8 text")

    def output(self, objects: Sequence[Column]) -> Column:
        return json_text(sql.struct(self._value().alias(_FIELD), *objects)).cast("binary")

    def _value(self) -> Column:
        value = sql.col(KAFKA.value)
        return value.cast("string") if self._is_text else value
