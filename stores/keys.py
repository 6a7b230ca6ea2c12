"""Brings look-ups into one form: keys as the bytes in the topic, as-of times as milliseconds."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from stores.errors import ConfigError
from stores.json_text import quoted


def key_bytes(keys: pa.Array) -> pa.BinaryArray:
    """One binary key for each row; null if the key or a part of it is null. Raises ConfigError for other types."""
    kind = keys.type
    if pa.types.is_dictionary(kind):
        return key_bytes(keys.dictionary).take(keys.indices)
    if pa.types.is_struct(kind):
        return _composite(keys)
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_fixed_size_binary(kind):
        return keys.cast(pa.binary())
    return _text(keys).cast(pa.binary())


def keys_of(rows: pa.RecordBatch, columns: Sequence[str]) -> pa.BinaryArray:
    """The key of each row, from one column, or composed of several."""
    if len(columns) == 1:
        return key_bytes(rows.column(columns[0]))
    # The struct itself is never null; a null in one of its columns makes the key null.
    return key_bytes(pa.StructArray.from_arrays([rows.column(name) for name in columns], list(columns)))


def _text(keys: pa.Array) -> pa.StringArray:
    kind = keys.type
    if (
        pa.types.is_null(kind)
        or pa.types.is_integer(kind)
        or pa.types.is_string(kind)
        or pa.types.is_large_string(kind)
    ):
        return keys.cast(pa.string())
    raise ConfigError(
        f"a column of type {kind} cannot be a key",
        next_step="cast it to a string, bytes or an integer in the lookup's key expression",
    )


def _composite(keys: pa.StructArray) -> pa.BinaryArray:
    # flatten() applies the struct's own validity to its parts, so a null struct becomes a null key below.
    parts = [_json_part(part) for part in keys.flatten()]
    if not parts:
        raise ConfigError("a composite key needs at least one part")
    joined = pc.binary_join_element_wise(*parts, ",", null_handling="emit_null")
    return pc.binary_join_element_wise("[", joined, "]", "", null_handling="emit_null").cast(pa.binary())


def _json_part(part: pa.Array) -> pa.StringArray:
    if pa.types.is_integer(part.type):
        return part.cast(pa.string())
    if pa.types.is_boolean(part.type):
        return pc.if_else(part, "true", "false")
    return quoted(_text(part))


def milliseconds(times: pa.TimestampArray) -> pa.Int64Array:
    """Timestamps of any unit as milliseconds since the epoch, rounded down; a time without a zone is UTC.

    Never raises for a time, however distant: one that is out of range becomes the last or the first millisecond.
    """
    kind = times.type
    if pa.types.is_null(kind):
        return times.cast(pa.int64())
    if not pa.types.is_timestamp(kind):
        raise ConfigError(
            f"a column of type {kind} cannot be an as-of time",
            next_step="cast it to a timestamp in the stage's event_time",
        )
    # Not Arrow's own rounding: for years beyond the calendar, which events may contain, it raises or wraps around.
    is_null = times.is_null().to_numpy(zero_copy_only=False) if times.null_count else None
    raw = times.cast(pa.int64())
    return pa.array(_rounded((raw.fill_null(0) if times.null_count else raw).to_numpy(), kind.unit), mask=is_null)


def _rounded(times: npt.NDArray[np.int64], unit: str) -> npt.NDArray[np.int64]:
    if unit == "ms":
        return times
    if unit == "s":
        first, last = np.iinfo(np.int64).min, np.iinfo(np.int64).max
        seconds = np.clip(times, -(-first // 1_000), last // 1_000)
        return np.where(times < seconds, first, np.where(times > seconds, last, seconds * 1_000))
    return times // (1_000 if unit == "us" else 1_000_000)
