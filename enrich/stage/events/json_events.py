"""JSON events whose expressions Spark evaluates: the fields that these name are read by a worker, and objects are
spliced into the original bytes in the JVM, so that everything else passes through untouched."""

import secrets
from collections.abc import Callable, Iterator, Sequence
from typing import cast

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sql
from pyspark.sql.functions import arrow_udf  # type: ignore[attr-defined] # missing in its stubs
from pyspark.sql.pandas.types import from_arrow_type
from pyspark.sql.types import StructType

from enrich.config import Columns
from enrich.stage.events.events import KAFKA
from enrich.stage.task.fate import Mask
from enrich.stage.task.whole import USABLE

# What Spark takes beyond JSON, which others could not read in the output.
_STRICT = {"allowSingleQuotes": "false", "allowNonNumericNumbers": "false"}
_TIMES = "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX"
_PARSED = "_parsed"
_OPENS, _CLOSES, _COMMA = (bytearray(mark) for mark in (b"{", b"}", b","))
_EMPTY, _AFTER_SPACE, _NOTHING = (bytearray(mark) for mark in (b"{}", b"!", b""))
_TO_THE_END = 2**31 - 1
_WHITE_SPACE = " \t\r\n"


class JsonEvents:
    """Events with these fields; they may have others, which are never looked at."""

    def __init__(self, columns: Columns) -> None:
        self._columns = columns
        # Nobody who writes events knows it: see `_parsed`.
        self._end = f"end_{secrets.token_hex(16)}"

    @property
    def schema(self) -> StructType:
        return cast(StructType, StructType.fromDDL(str(self._columns)))

    @property
    def kept(self) -> Sequence[str]:
        return ()

    def read(self, events: DataFrame, fields: Sequence[str]) -> DataFrame:
        value = sql.col(KAFKA.value)
        if not fields:
            return events.select("*", self._parsed(value).alias(_PARSED)).select(
                *events.columns, self._usable().alias(USABLE)
            )
        # By the reader of events that are joined whole, not by Spark's, which takes some texts that are no JSON, and
        # has other ideas of numbers: a stage may go the one way today and the other tomorrow.
        kind = pa.struct(list(self._columns.select(fields).arrow))
        read = arrow_udf(_reading(pa.schema(list(kind))), from_arrow_type(kind)).asNondeterministic()
        parsed = events.select("*", read(value).alias(_PARSED))
        event = sql.col(_PARSED)
        return parsed.select(
            *events.columns, event.isNotNull().alias(USABLE), *(event[name].alias(name) for name in fields)
        )

    def reason(self) -> Column:
        value = sql.col(KAFKA.value)
        return (
            sql.when(value.isNull(), "the event has no value")
            .when(sql.length(value) == 0, "the event is empty")
            .when(~sql.is_valid_utf8(value.cast("string")), "the event is not UTF-8 text")
            .otherwise("the event is not a JSON object")
        )

    def output(self, objects: Sequence[Column]) -> Column:
        value = sql.col(KAFKA.value)
        return spliced(value, sql.struct(*objects)) if objects else value

    def _parsed(self, value: Column) -> Column:
        """Something that tells whether the value was one object.

        Spark's parser stops at the end of the first value and would take `{"a":1}{"b":2}` for an event, which spliced
        is no JSON. So the text is put into a list, with an object after it that only a whole value leaves in place.
        """
        wrapped = sql.concat(sql.lit("["), value.cast("string"), sql.lit(f',{{"{self._end}":1}}]'))
        return sql.from_json(wrapped, f"array<struct<{self._end}:int>>", _STRICT)

    def _usable(self) -> Column:
        event, end = sql.get(_PARSED, sql.lit(0)), sql.get(_PARSED, sql.lit(1))
        is_one = (sql.size(_PARSED) == 2) & end.getField(self._end).isNotNull() & event.getField(self._end).isNull()
        is_object = event.isNotNull() & sql.is_valid_utf8(sql.col(KAFKA.value).cast("string"))
        return sql.coalesce(is_one & is_object, sql.lit(False))


def _reading(fields: pa.Schema) -> Callable[[Iterator[pa.Array]], Iterator[pa.Array]]:
    def read(batches: Iterator[pa.Array]) -> Iterator[pa.Array]:
        # Imported by the worker, when it has a task: the driver reads no events.
        from enrich.stage.events.fields import EventFields

        reader = EventFields(fields)
        return (_usable_rows(*reader.read(values)) for values in batches)

    return read


def _usable_rows(usable: Mask, rows: pa.StructArray) -> pa.StructArray:
    return pc.if_else(pa.array(usable), rows, pa.scalar(None, rows.type))


def json_text(struct: Column) -> Column:
    """Null fields are written as null, times in UTC with all of their digits."""
    return sql.to_json(struct, {"ignoreNullFields": "false", "timestampFormat": _TIMES})


def spliced(value: Column, objects: Column) -> Column:
    """The value, a usable one, with the fields of the struct `objects` as further members.

    Nothing is named twice that takes long: below a condition Spark computes each mention by itself.
    """
    addition = sql.substring(json_text(objects).cast("binary"), sql.lit(2), sql.lit(_TO_THE_END))
    return sql.concat(_opened(value), addition)


def _opened(value: Column) -> Column:
    """The object without its closing brace, and with a comma where a member stands before it."""
    body = sql.concat(_without_last(value), sql.lit(_COMMA))
    return sql.when(_is_plain(value), body).otherwise(_opened_slowly(_trimmed(value)))


def _is_plain(value: Column) -> Column:
    """Whether the object ends in a member and a brace, without white space."""
    before_last = sql.substring(value, sql.length(value) - 1, sql.lit(1))
    return (
        sql.endswith(value, sql.lit(_CLOSES))
        & ~sql.endswith(value, sql.lit(_EMPTY))
        & (before_last >= sql.lit(_AFTER_SPACE))
    )


def _opened_slowly(value: Column) -> Column:
    """The same for any object; `value` has no white space around it."""
    body = _without_last(value)
    return sql.concat(body, sql.when(_trimmed(body) == sql.lit(_OPENS), sql.lit(_NOTHING)).otherwise(sql.lit(_COMMA)))


def _without_last(value: Column) -> Column:
    return sql.substring(value, sql.lit(1), sql.length(value) - 1)


def _trimmed(value: Column) -> Column:
    return sql.btrim(value.cast("string"), sql.lit(_WHITE_SPACE)).cast("binary")
