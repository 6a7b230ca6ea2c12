"""Which casts workers make."""

import pyarrow as pa

from enrich.stage.compute.kinds import BOOLEAN, DATE, TEXT, TIME, Group


def cast(origin: pa.DataType, target: pa.DataType) -> str | None:
    """The kernel that casts so, or None."""
    for is_origin, is_target, function in _CASTS:
        if is_origin(origin) and is_target(target):
            return function
    return None


_whole, _floating, _decimal = pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal
_boolean, _text, _time, _date = BOOLEAN.equals, TEXT.equals, TIME.equals, DATE.equals
_CASTS: tuple[tuple[Group, Group, str], ...] = (
    (_whole, _whole, "wrapped"),
    (_whole, _floating, "converted"),
    (_whole, _decimal, "decimal_of_whole"),
    (_whole, _boolean, "to_boolean"),
    (_whole, _text, "printed"),
    (_whole, _time, "time_of_seconds"),
    (_floating, _floating, "converted"),
    (_floating, _whole, "cut"),
    (_floating, _boolean, "to_boolean"),
    (_decimal, _decimal, "fitted"),
    (_decimal, _whole, "whole_of_decimal"),
    (_decimal, _floating, "floating_of_decimal"),
    (_decimal, _boolean, "boolean_of_decimal"),
    (_decimal, _text, "printed"),
    (_boolean, _text, "printed"),
    (_boolean, _whole, "from_boolean"),
    (_boolean, _floating, "from_boolean"),
    (_text, _whole, "whole_number"),
    (_text, pa.types.is_binary, "printed"),
    (_text, _date, "date_of_text"),
    (_text, _boolean, "read_boolean"),
    (_text, _floating, "floating_of_text"),
    (_text, _decimal, "decimal_of_text"),
    (_time, _whole, "seconds_of_time"),
    (_time, _floating, "floating_of_time"),
    (_time, _date, "date_of_time"),
    (_time, _text, "printed_time"),
    (_date, _time, "time_of_date"),
    (_date, _text, "printed_date"),
)
