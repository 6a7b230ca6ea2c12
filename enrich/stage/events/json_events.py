"""JSON events whose expressions Spark evaluates. A worker reads the fields that the expressions name; the JVM splices
objects into the original bytes, so that everything else passes through unchanged."""

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
from enrich.stage.events.events import KAFKA, missing
from enrich.stage.task.fate import Mask
from enrich.stage.task.whole import USABLE

# Switches off Spark's extensions of JSON, which other programs could not read in the output.
_STRICT = {"allowSingleQuotes": "false", "allowNonNumericNumbers": "false"}
_TIMES = "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX"
_PARSED = "_parsed"
_OPENS, _CLOSES, _COMMA = (bytearray(mark) for mark in (b"{", b"}", b","))
_EMPTY, _AFTER_SPACE, _NOTHING = (bytearray(mark) for mark in (b"{}", b"!", b""))
_TO_THE_END = 2**31 - 1
_WHITE_SPACE = " \t\r\n"


class JsonEvents:
    """Events with these fields. Other fields are never parsed."""

    def __init__(self, columns: Columns) -> None:
        self._columns = columns
        # Random, so that no event can contain it: see `_parsed`.
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
        # The same reader as in `worker_join`, not Spark's parser, which accepts some texts that are not JSON and reads
        # numbers differently: the same stage may use the one join today and the other tomorrow.
        kind = pa.struct(list(self._columns.select(fields).arrow))
        read = arrow_udf(_reading(pa.schema(list(kind))), from_arrow_type(kind)).asNondeterministic()
        parsed = events.select("*", read(value).alias(_PARSED))
        event = sql.col(_PARSED)
        return parsed.select(
            *events.columns, event.isNotNull().alias(USABLE), *(event[name].alias(name) for name in fields)
        )

    def reason(self) -> Column:
        is_text = sql.is_valid_utf8(sql.col(KAFKA.value).cast("string"))
        return missing().when(~is_text, "the event is not UTF-8 text").otherwise("the event is not a JSON object")

    def output(self, objects: Sequence[Column]) -> Column:
        value = sql.col(KAFKA.value)
        return spliced(value, sql.struct(*objects)) if objects else value

    def _parsed(self, value: Column) -> Column:
        """A list from which `_usable` sees whether the value is exactly one object.

        Spark's parser stops at the end of the first value and would take `{"a":1}{"b":2}` for an event, which is not
        JSON after splicing. So the text is put into a list and followed by a marker object, which is the second
        element only if the text is exactly one value.
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
        # Imported in the worker only: the driver reads no events.
        from enrich.stage.events.fields import EventFields

        reader = EventFields(fields)
        return (_usable_rows(*reader.read(values)) for values in batches)

    return read


def _usable_rows(usable: Mask, rows: pa.StructArray) -> pa.StructArray:
    return pc.if_else(pa.array(usable), rows, pa.scalar(None, rows.type))


def json_text(struct: Column) -> Column:
    """Null fields are written as null, times in UTC with microseconds."""
    return sql.to_json(struct, {"ignoreNullFields": "false", "timestampFormat": _TIMES})


def spliced(value: Column, objects: Column) -> Column:
    """A usable value with the fields of the struct `objects` as further members.

    It must not use an expensive column twice: below a condition Spark computes it once for each use.
    """
    addition = sql.substring(json_text(objects).cast("binary"), sql.lit(2), sql.lit(_TO_THE_END))
    return sql.concat(_opened(value), addition)


def _opened(value: Column) -> Column:
    """The object without its closing brace, and with a comma if it has members."""
    body = sql.concat(_without_last(value), sql.lit(_COMMA))
    return sql.when(_is_plain(value), body).otherwise(_opened_slowly(_trimmed(value)))


def _is_plain(value: Column) -> Column:
    """Whether the object has members and no white space before or after its closing brace."""
    before_last = sql.substring(value, sql.length(value) - 1, sql.lit(1))
    return (
        sql.endswith(value, sql.lit(_CLOSES))
        & ~sql.endswith(value, sql.lit(_EMPTY))
        & (before_last >= sql.lit(_AFTER_SPACE))
    )


def _opened_slowly(value: Column) -> Column:
    """Like `_opened`, for any object. `value` has no white space around it."""
    body = _without_last(value)
    return sql.concat(body, sql.when(_trimmed(body) == sql.lit(_OPENS), sql.lit(_NOTHING)).otherwise(sql.lit(_COMMA)))


def _without_last(value: Column) -> Column:
    return sql.substring(value, sql.lit(1), sql.length(value) - 1)


def _trimmed(value: Column) -> Column:
    return sql.btrim(value.cast("string"), sql.lit(_WHITE_SPACE)).cast("binary")
