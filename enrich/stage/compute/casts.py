"""Which casts workers make."""

import pyarrow as pa

from enrich.stage.compute.kinds import BOOLEAN, TEXT


def cast_function(origin: pa.DataType, target: pa.DataType) -> str | None:
    """The kernel that casts so, or None."""
    if pa.types.is_null(origin):
        return "all_null"
    for is_origin, is_target, function in _CASTS:
        if is_origin(origin) and is_target(target):
            return function
    return None


_CASTS = (
    (pa.types.is_integer, pa.types.is_integer, "wrapped"),
    (pa.types.is_integer, pa.types.is_floating, "converted"),
    (pa.types.is_floating, pa.types.is_floating, "converted"),
    (pa.types.is_floating, pa.types.is_integer, "cut"),
    (pa.types.is_integer, TEXT.equals, "printed"),
    (BOOLEAN.equals, TEXT.equals, "printed"),
    (BOOLEAN.equals, pa.types.is_integer, "from_boolean"),
    (BOOLEAN.equals, pa.types.is_floating, "from_boolean"),
    (pa.types.is_integer, BOOLEAN.equals, "to_boolean"),
    (pa.types.is_floating, BOOLEAN.equals, "to_boolean"),
    (TEXT.equals, pa.types.is_integer, "whole_number"),
    (TEXT.equals, BOOLEAN.equals, "read_boolean"),
)
