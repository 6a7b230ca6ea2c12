"""Values written in the configuration file, fitted to the type of a column: what `default:` on a lookup holds."""

import decimal
import math
from collections.abc import Mapping
from datetime import UTC, date, datetime
from typing import Any

from enrich.config.messages.words import Wrong, hint, shown
from enrich.config.types.column_types import Array, Column, ColumnType, Decimal, Map, Simple, Struct

_INTEGERS = {"tinyint": 8, "smallint": 16, "int": 32, "bigint": 64}
_FLOAT_MAX = 3.4028234663852886e38


def fit(value: Any, column: Column) -> Any:
    """The value as Arrow takes it for that column. Raises Wrong. A number may be given as text, as ${...} gives it."""
    if value is None and not column.nullable:
        raise Wrong(f"{column.name} is declared NOT NULL")
    return None if value is None else _fit(value, column.type)


def _fit(value: Any, column_type: ColumnType) -> Any:
    if value is None:
        return None
    match column_type:
        case Simple(name):
            return _fit_simple(value, name)
        case Decimal(precision, scale):
            return _fit_decimal(value, precision, scale)
        case Array(element) if isinstance(value, list | tuple):
            return [_fit(item, element) for item in value]
        case Map(key_type, value_type) if isinstance(value, Mapping):
            return [(_fit(key, key_type), _fit(item, value_type)) for key, item in value.items()]
        case Struct(fields) if isinstance(value, Mapping):
            return _fit_struct(value, fields)
    wanted = "a list" if isinstance(column_type, Array) else "a mapping"
    raise Wrong(f"expected {wanted} for {column_type}, got {shown(value)}")


def _fit_struct(value: Mapping[str, Any], fields: tuple[Column, ...]) -> dict[str, Any]:
    names = [field.name for field in fields]
    for name in value:
        if name not in names:
            raise Wrong(f"the struct has no field {name}{hint(name, names, 'fields')}")
    return {field.name: fit(value.get(field.name), field) for field in fields}


def _fit_simple(value: Any, name: str) -> Any:
    if name in _INTEGERS:
        return _fit_integer(value, name)
    if name in ("float", "double"):
        return _fit_float(value, name)
    if name == "boolean":
        if isinstance(value, bool):
            return value
        if value in ("true", "false"):
            return bool(value == "true")
        raise Wrong(f"expected true or false, got {shown(value)}")
    if not isinstance(value, str):
        raise Wrong(f"expected text for {name}, got {shown(value)}{': put it in quotes' if _is_scalar(value) else ''}")
    if name == "string":
        return str(value)
    if name == "binary":
        return value.encode()
    return _fit_time(value, name)


def _fit_time(value: str, name: str) -> date | datetime:
    try:
        if name == "date":
            return date.fromisoformat(value)
        instant = datetime.fromisoformat(value)
        return instant.replace(tzinfo=UTC) if instant.tzinfo is None else instant.astimezone(UTC)
    except (ValueError, OverflowError):
        example = "2026-01-31" if name == "date" else "2026-01-31T12:00:00Z"
        raise Wrong(f"expected a {name} such as {example}, got {shown(value)}") from None


def _fit_integer(value: Any, name: str) -> int:
    bits = _INTEGERS[name]
    number = _number(value, int)
    if number is None or number != number // 1 or not -(2 ** (bits - 1)) <= number < 2 ** (bits - 1):
        raise Wrong(f"expected a whole number of {bits} bits for {name}, got {shown(value)}")
    return int(number)


def _fit_float(value: Any, name: str) -> float:
    number = _number(value, float)
    if number is None or (name == "float" and math.isfinite(number) and abs(number) > _FLOAT_MAX):
        raise Wrong(f"expected a number for {name}, got {shown(value)}")
    return float(number)


def _fit_decimal(value: Any, precision: int, scale: int) -> decimal.Decimal:
    try:
        # By way of text: the float 0.1 is not the decimal 0.1.
        number = decimal.Decimal(str(value)) if _is_scalar(value) or isinstance(value, str) else None
        context = decimal.Context(prec=precision, traps=[decimal.Inexact, decimal.InvalidOperation])
        if number is not None and number.is_finite():
            return number.quantize(decimal.Decimal(1).scaleb(-scale), context=context)
    except decimal.DecimalException:
        pass
    raise Wrong(f"expected a number that fits decimal({precision},{scale}), got {shown(value)}")


def _is_scalar(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _number(value: Any, kind: type[int] | type[float]) -> int | float | None:
    if not _is_scalar(value) and not isinstance(value, str):
        return None
    try:
        return kind(value) if isinstance(value, str) else float(value) if kind is float else value
    except (ValueError, OverflowError):
        return None
