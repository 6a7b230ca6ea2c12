"""Why a value does not fit its column, and where in the value that is. Never the value itself: reasons end in logs
and headers, which must not hold payloads."""

from collections.abc import Callable
from decimal import Decimal
from typing import Any


class Unfit(ValueError):
    """A value that a column cannot hold, and the path to it from the outermost value."""

    def __init__(self, reason: str, path: tuple[str, ...] = ()) -> None:
        super().__init__(f"{'.'.join(path)}: {reason}" if path else reason)
        self.reason = reason
        self.path = path


def inside(name: str, convert: Callable[[Any], Any], value: Any) -> Any:
    """Calls `convert` for what stands under a name, and puts the name into the path of its errors."""
    try:
        return convert(value)
    except Unfit as error:
        raise Unfit(error.reason, (name, *error.path)) from None


def wrong(expected: str, value: Any) -> Unfit:
    return Unfit(f"expected {expected}, got {_JSON_NAMES.get(type(value), type(value).__name__)}")


def map_entry(number: int) -> str:
    """The step of a path into a map: by number, because the keys of a map are payload, as values are."""
    return f"{{{number}}}"


_JSON_NAMES: dict[type, str] = {
    dict: "an object",
    list: "an array",
    str: "text",
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    Decimal: "a number",
}
