"""What is asked for, in one form: keys as the bytes that stand in the topic, as-of times as milliseconds."""

import json

import pyarrow as pa
import pyarrow.compute as pc

from stores.errors import ConfigError

# The characters that JSON requires to be escaped. Everything else stands as it is, in UTF-8.
_NEEDS_ESCAPE = r'["\\\x00-\x1f]'


def key_bytes(keys: pa.Array) -> pa.BinaryArray:
    """One binary key for each row; null where the key or a part of it is null. Raises ConfigError for other types."""
    kind = keys.type
    if pa.types.is_dictionary(kind):
        return key_bytes(keys.dictionary).take(keys.indices)
    if pa.types.is_struct(kind):
        return _composite(keys)
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_fixed_size_binary(kind):
        return keys.cast(pa.binary())
    return _text(keys).cast(pa.binary())


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
    text = _text(part)
    if pc.any(pc.match_substring_regex(text, _NEEDS_ESCAPE)).as_py():
        quoted = [None if value is None else json.dumps(value, ensure_ascii=False) for value in text.to_pylist()]
        return pa.array(quoted, pa.string())
    return pc.binary_join_element_wise('"', text, '"', "", null_handling="emit_null")


def milliseconds(times: pa.TimestampArray) -> pa.Int64Array:
    """Timestamps of any unit as milliseconds since the epoch, rounded down; a time without a zone is UTC."""
    kind = times.type
    if pa.types.is_null(kind):
        return times.cast(pa.int64())
    if not pa.types.is_timestamp(kind):
        raise ConfigError(
            f"a column of type {kind} cannot be an as-of time",
            next_step="cast it to a timestamp in the stage's event_time",
        )
    whole = pc.floor_temporal(times, unit="millisecond")
    return whole.cast(pa.timestamp("ms", tz=kind.tz)).cast(pa.int64())
