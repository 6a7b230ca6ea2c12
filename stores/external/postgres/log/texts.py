"""PostgreSQL's texts as Arrow columns: the same values as a snapshot has, so that equal rows give equal records."""

from collections.abc import Callable

import pyarrow as pa
import pyarrow.compute as pc

from stores.errors import BadRecord
from stores.external.postgres.log.literals import Kind, json_of
from stores.external.postgres.types import Column

_NO_NUMBER = ("NaN", "Infinity", "-Infinity")
_TIME = r"^\d{4}-"  # infinity, years before 1 and after 9999 are written otherwise
_BEFORE_CHRIST = " BC"


def converter(column: Column, kind: Kind) -> Callable[[pa.StringArray], pa.Array]:
    """What makes the column of its texts. `kind`: what values of its type look like."""
    field = column.field

    def convert(texts: pa.StringArray) -> pa.Array:
        try:
            return _converted(texts, column, kind, field.type)
        except (pa.ArrowException, ValueError, IndexError):  # its message has the value
            raise BadRecord(
                f"PostgreSQL sent a value that its type does not have here, in column {column.name}",
                next_step="report this, with the type of the column",
            ) from None

    return convert


def _converted(texts: pa.StringArray, column: Column, kind: Kind, wanted: pa.DataType) -> pa.Array:
    if pa.types.is_boolean(wanted):
        return pc.equal(texts, "t")
    if pa.types.is_binary(wanted):
        return pa.array([None if text is None else bytes.fromhex(text[2:]) for text in texts.to_pylist()], wanted)
    if column.is_time:
        is_time = pc.and_(pc.match_substring_regex(texts, _TIME), pc.invert(pc.match_substring(texts, _BEFORE_CHRIST)))
        return pc.if_else(is_time, texts, pa.scalar(None, pa.string())).cast(wanted)
    if kind.is_numeric:
        return pc.if_else(pc.is_in(texts, pa.array(_NO_NUMBER)), pa.scalar(None, pa.string()), texts).cast(wanted)
    if kind.is_nested:
        return pa.array([None if text is None else json_of(text, kind) for text in texts.to_pylist()], pa.string())
    return texts if pa.types.is_string(wanted) else texts.cast(wanted)
