"""Column lists as Spark writes them, `plan string, limits struct<rps:int>`; errors point at the character."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, NoReturn

from pydantic import BeforeValidator, InstanceOf, PlainSerializer, WithJsonSchema

from enrich.config.messages.words import Wrong, hint, parsed, shortened, shown
from enrich.config.types.column_types import (
    MAX_PRECISION,
    SIMPLE_TYPES,
    Array,
    Column,
    ColumnType,
    Decimal,
    Map,
    Simple,
    Struct,
    from_arrow_field,
    to_arrow_field,
)

if TYPE_CHECKING:
    import pyarrow as pa

EXPECTED = 'columns such as "plan string, rps int"'

_ALIASES = {"integer": "int", "long": "bigint", "short": "smallint", "byte": "tinyint", "real": "float"}
_DECIMALS = ("decimal", "dec", "numeric")
_TYPE_NAMES = (*SIMPLE_TYPES, "decimal", "array", "map", "struct")
_DEFAULT_PRECISION = 10
# Spark's parser and Arrow's types are recursive: a list nested deeper than this is a mistake or an attack.
_DEEPEST = 32

_TOKEN = re.compile(r"\s*(?:(?P<quoted>`(?:[^`]|``)+`)|(?P<word>\w+)|(?P<mark>[<>(),:])|(?P<other>\S))")


@dataclass(frozen=True)
class Columns:
    """The columns of a table or of an event, in their order. Names are unique, also when case is ignored."""

    columns: tuple[Column, ...]

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(column.name for column in self.columns)

    def find(self, name: str, *, ignore_case: bool = False) -> Column | None:
        """Spark ignores the case of names, a table does not."""
        if ignore_case:
            return next((column for column in self.columns if column.name.casefold() == name.casefold()), None)
        return next((column for column in self.columns if column.name == name), None)

    def select(self, names: Iterable[str]) -> "Columns":
        """Raises KeyError for a name that is none of the columns."""
        by_name = {column.name: column for column in self.columns}
        return Columns(tuple(by_name[name] for name in names))

    @cached_property
    def arrow(self) -> "pa.Schema":
        import pyarrow as pa

        return pa.schema([to_arrow_field(column) for column in self.columns])

    @classmethod
    def from_arrow(cls, schema: "pa.Schema") -> "Columns":
        """Raises ValueError for a type that no column list can name."""
        return cls(tuple(from_arrow_field(field) for field in schema))

    def __str__(self) -> str:
        return ", ".join(str(column) for column in self.columns)


def parse_columns(text: str) -> Columns:
    """Raises Wrong, with the offset of the character that it stumbled over."""
    parser = _Parser(text)
    columns = parser.fields(" ")
    if parser.kind:
        parser.fail(f"expected a comma or the end, got {parser.word}")
    return Columns(columns)


class _Parser:
    """Recursive descent over the tokens: one method a rule of the grammar, each leaves at the next token."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._depth = 0
        self._next(0)

    def _next(self, offset: int) -> None:
        found = _TOKEN.match(self._text, offset)
        self.kind = found.lastgroup if found else None
        self.word = found[self.kind] if found and self.kind else "the end"
        self.offset = found.start(self.kind) if found and self.kind else len(self._text)
        self._end = found.end() if found else len(self._text)
        if self.word == "`":
            self.fail("this ` opens a name that no second ` closes")

    def fail(self, message: str, offset: int | None = None, advice: str = "") -> NoReturn:
        offset = self.offset if offset is None else offset
        raise Wrong(f"{message} at character {offset + 1} of “{shortened(self._text)}”{advice}", offset)

    def take(self) -> str:
        word = self.word
        self._next(self._end)
        return word

    def accept(self, word: str) -> bool:
        if self.word.lower() != word or self.kind == "quoted":
            return False
        self.take()
        return True

    def expect(self, mark: str, what: str) -> None:
        if not self.accept(mark):
            self.fail(f"expected {mark} {what}, got {self.word}")

    def fields(self, separator: str) -> tuple[Column, ...]:
        columns: list[Column] = []
        seen: dict[str, str] = {}
        while True:
            offset = self.offset
            column = self.field(separator)
            other = seen.setdefault(column.name.casefold(), column.name)
            if len(seen) == len(columns):
                differ = "" if other == column.name else f" ({other} and {column.name} differ in case only)"
                self.fail(f"column {column.name} occurs twice{differ}", offset)
            columns.append(column)
            if not self.accept(","):
                return tuple(columns)

    def field(self, separator: str) -> Column:
        if self.kind not in ("word", "quoted"):
            self.fail(f"expected a column name, got {self.word}")
        quoted = self.kind == "quoted"
        name = self.take()
        if quoted:
            name = name[1:-1].replace("``", "`")
        if not self.accept(":") and self.kind is None:
            self.fail(f"expected {name}{separator}TYPE, but there is no type")
        column_type = self.type()
        return Column(name, column_type, nullable=not self.not_null())

    def not_null(self) -> bool:
        if not self.accept("not"):
            return False
        if not self.accept("null"):
            self.fail(f"expected NOT NULL, got NOT and {self.word}")
        return True

    def type(self) -> ColumnType:
        if self.kind != "word":
            self.fail(f"expected a type, got {self.word}")
        self._depth += 1
        if self._depth > _DEEPEST:
            self.fail(f"types may be nested {_DEEPEST} deep")
        offset = self.offset
        written = self.take()
        name = _ALIASES.get(written.lower(), written.lower())
        result = self.type_named(name)
        if result is None:
            self.fail(f"unknown type {written}", offset, hint(name, _TYPE_NAMES, "types"))
        self._depth -= 1
        return result

    def type_named(self, name: str) -> ColumnType | None:
        if name in SIMPLE_TYPES:
            return Simple(name)
        if name in _DECIMALS:
            return self.decimal()
        if name == "array":
            self.expect("<", "after array")
            element = self.type()
            self.expect(">", "to close array<")
            return Array(element)
        if name == "map":
            self.expect("<", "after map")
            key = self.type()
            self.expect(",", "between the types of keys and values")
            value = self.type()
            self.expect(">", "to close map<")
            return Map(key, value)
        if name == "struct":
            self.expect("<", "after struct")
            fields = self.fields(":")
            self.expect(">", "to close struct<")
            return Struct(fields)
        return None

    def decimal(self) -> Decimal:
        if not self.accept("("):
            return Decimal(_DEFAULT_PRECISION, 0)
        precision = self.number(1, MAX_PRECISION, "digits")
        scale = self.number(0, precision, "digits after the point") if self.accept(",") else 0
        self.expect(")", "to close decimal(")
        return Decimal(precision, scale)

    def number(self, low: int, high: int, what: str) -> int:
        if not re.fullmatch("[0-9]{1,4}", self.word) or not low <= int(self.word) <= high:
            self.fail(f"expected {low} to {high} {what}, got {self.word}")
        return int(self.take())


def _as_columns(value: object) -> Columns:
    if isinstance(value, Columns):
        return value
    if not isinstance(value, str) or not value.strip():
        raise Wrong(f"expected {EXPECTED}, got {shown(value)}")
    return parsed(value, parse_columns, EXPECTED)


ColumnList = Annotated[
    InstanceOf[Columns],
    BeforeValidator(_as_columns),
    PlainSerializer(str),
    WithJsonSchema({"type": "string", "minLength": 1}),
]
