"""Avro schemas as value objects. A type that contains itself is refused, since no column can hold it."""

import json
from dataclasses import dataclass
from typing import Any

from fastavro.schema import SchemaParseException, UnknownType, parse_schema

from enrich.base.avro import with_float_defaults
from enrich.base.errors import ConfigError

# Schemas come from producers. This is deeper than any real one, and does not exhaust the stack.
_DEEPEST = 64

NO_DEFAULT = object()


@dataclass(frozen=True)
class Logical:
    """A logical type with its attributes."""

    name: str
    precision: int = 0
    scale: int = 0


@dataclass(frozen=True)
class Primitive:
    """null, boolean, int, long, float, double, bytes or string."""

    name: str
    logical: Logical | None = None


@dataclass(frozen=True)
class Fixed:
    name: str
    size: int
    logical: Logical | None = None
    aliases: tuple[str, ...] = ()


@dataclass(frozen=True)
class Enum:
    name: str
    symbols: tuple[str, ...]
    default: str | None = None
    aliases: tuple[str, ...] = ()


@dataclass(frozen=True)
class Array:
    items: "AvroType"


@dataclass(frozen=True)
class Map:
    values: "AvroType"


@dataclass(frozen=True)
class Union:
    branches: tuple["AvroType", ...]


@dataclass(frozen=True, eq=False)
class Field:
    name: str
    type: "AvroType"
    aliases: tuple[str, ...] = ()
    default: Any = NO_DEFAULT


@dataclass(frozen=True, eq=False)
class Record:
    name: str
    fields: tuple[Field, ...]
    aliases: tuple[str, ...] = ()


AvroType = Primitive | Fixed | Enum | Array | Map | Union | Record


def load_schema(text: str) -> Record:
    """Raises ConfigError if it is not the schema of a record, or no columns can hold it."""
    try:
        raw = with_float_defaults(json.loads(text))
        loaded = _Loader().load(parse_schema(raw, named_schemas={}))
    except ConfigError:
        raise
    except RecursionError:
        raise ConfigError("the avro schema is nested too deeply") from None
    except UnknownType as error:
        raise ConfigError(f"the avro schema names an unknown type, {error.name}") from None
    except (SchemaParseException, ValueError, KeyError, TypeError, AttributeError) as error:
        # fastavro raises a plain KeyError if the schema lacks a key.
        raise ConfigError(f"not an avro schema: {error}") from None
    if not isinstance(loaded, Record):
        raise ConfigError("the avro schema is not that of a record")
    return loaded


def describe(kind: AvroType) -> str:
    """The type as text for a message."""
    match kind:
        case Primitive(name, logical):
            return name if logical is None else f"{name} ({logical.name})"
        case Fixed(name) | Enum(name) | Record(name):
            return f"{type(kind).__name__.lower()} {name}"
        case Union(branches):
            return f"union of {', '.join(describe(branch) for branch in branches)}"
    return type(kind).__name__.lower()


class _Loader:
    """Converts a schema that fastavro has validated, with all names in full."""

    def __init__(self) -> None:
        self._named: dict[str, AvroType] = {}
        self._open: set[str] = set()
        self._depth = 0

    def load(self, raw: Any) -> AvroType:
        self._depth += 1
        if self._depth > _DEEPEST:
            raise ConfigError(f"the avro schema is nested more than {_DEEPEST} deep")
        loaded = self._load(raw)
        self._depth -= 1
        return loaded

    def _load(self, raw: Any) -> AvroType:
        if isinstance(raw, list):
            return Union(tuple(self.load(branch) for branch in raw))
        if isinstance(raw, str):
            if raw in self._open:
                raise ConfigError(f"the avro schema's {raw} contains itself, and no column can hold that")
            return self._named.get(raw) or Primitive(raw)
        kind = raw["type"]
        if not isinstance(kind, str) or kind in self._named or kind in self._open:
            return self.load(kind)
        match kind:
            case "record" | "error":
                return self._record(raw)
            case "enum":
                return self._keep(Enum(raw["name"], _symbols(raw), raw.get("default"), _aliases(raw)))
            case "fixed":
                return self._keep(Fixed(raw["name"], _size(raw), _logical(raw), _aliases(raw)))
            case "array":
                return Array(self.load(raw["items"]))
            case "map":
                return Map(self.load(raw["values"]))
        return Primitive(kind, _logical(raw))

    def _record(self, raw: dict[str, Any]) -> AvroType:
        self._open.add(raw["name"])
        fields = tuple(
            Field(_text(field["name"]), self.load(field["type"]), _aliases(field), field.get("default", NO_DEFAULT))
            for field in raw["fields"]
        )
        self._open.remove(raw["name"])
        return self._keep(Record(raw["name"], fields, _aliases(raw)))

    def _keep(self, loaded: Enum | Fixed | Record) -> AvroType:
        self._named[loaded.name] = loaded
        return loaded


def _symbols(raw: dict[str, Any]) -> tuple[str, ...]:
    symbols = raw["symbols"]
    if not isinstance(symbols, list) or not symbols or not all(isinstance(symbol, str) for symbol in symbols):
        raise ConfigError(f"not an avro schema: the symbols of the enum {raw['name']} are no list of names")
    return tuple(symbols)


def _size(raw: dict[str, Any]) -> int:
    """In bytes. No record is as long as the first that is refused."""
    size = raw["size"]
    if type(size) is not int or not 0 <= size < 2**31:  # true is an int in Python
        raise ConfigError(f"not an avro schema: the size of {raw['name']} is no whole number from 0 to {2**31 - 1}")
    return size


def _aliases(raw: dict[str, Any]) -> tuple[str, ...]:
    return tuple(_text(alias) for alias in raw.get("aliases", ()))


def _text(name: Any) -> str:
    """A name, which fastavro does not look at. Raises ValueError."""
    if not isinstance(name, str):
        raise ConfigError("not an avro schema: a name is no text")
    name.encode()  # not half a surrogate pair
    return name


def _logical(raw: dict[str, Any]) -> Logical | None:
    """None also for an invalid decimal: the specification says to ignore it."""
    name = raw.get("logicalType")
    if not isinstance(name, str):
        return None
    if name != "decimal":
        return Logical(name)
    precision, scale = raw.get("precision"), raw.get("scale", 0)
    if not isinstance(precision, int) or not isinstance(scale, int) or not 0 <= scale <= precision or precision < 1:
        return None
    return Logical(name, precision, scale)
