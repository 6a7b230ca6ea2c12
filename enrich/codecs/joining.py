"""Texts and bytes of whole columns, put together."""

import pyarrow as pa
import pyarrow.compute as pc


def joined(*parts: pa.Array | pa.Scalar) -> pa.Array:
    """The parts concatenated. Null if one of them is."""
    nothing = "" if pa.types.is_string(parts[0].type) else b""
    return pc.binary_join_element_wise(*parts, pa.scalar(nothing, parts[0].type))


def null_where(values: pa.Array, made: pa.Array) -> pa.Array:
    """What was made, but null where the values are."""
    return pc.if_else(values.is_valid(), made, pa.scalar(None, made.type)) if values.null_count else made
