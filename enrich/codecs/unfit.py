"""Errors that say why and where a value does not fit its column. They never contain the value: reasons go to logs and
headers, which must not hold payloads."""

from collections.abc import Callable
from decimal import Decimal
from typing import Any


class Unfit(ValueError):
    """A value that a column cannot hold, with the path to it from the outermost value."""

    def __init__(self, reason: str, path: tuple[str, ...] = ()) -> None:
        super().__init__(f"{'.'.join(path)}: {reason}" if path else reason)
        self.reason = reason
        self.path = path


def inside(name: str, convert: Callable[[Any], Any], value: Any) -> Any:
    """Calls `convert` for the value of a field, and adds the field's name to the path of its errors."""
    try:
        return convert(value)
    except Unfit as error:
        raise Unfit(error.reason, (name, *error.path)) from None


def wrong(expected: str, value: Any) -> Unfit:
    return Unfit(f"expected {expected}, got {_JSON_NAMES.get(type(value), type(value).__name__)}")


def map_entry(number: int) -> str:
    """A map entry in a path: by number, because the keys of a map are payload too."""
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
