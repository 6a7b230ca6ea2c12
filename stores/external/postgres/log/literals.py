"""PostgreSQL's texts of arrays and composite values as JSON, as its function `to_json` writes them."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

_NUMBERS = (20, 21, 23, 26, 700, 701, 1700)
_BOOLEAN, _NUMERIC, _JSONS, _TIMES = 16, 1700, (114, 3802), (1114, 1184)
_NUMBER = re.compile(r"-?\d+(\.\d+)?([eE][-+]?\d+)?")


TypeRow = tuple[str, int, int, str, Any, int]
"""Of `pg_type`: typtype, a domain's base, an array's element, its delimiter, fields, and a domain's modifier."""
_PLAIN: TypeRow = ("b", 0, 0, ",", None, -1)


@dataclass(frozen=True, slots=True)
class Kind:
    """What values of a type look like."""

    type_id: int
    """Of a domain, the type beneath it."""
    element: "Kind | None" = None
    """Of an array."""
    delimiter: str = ","
    fields: "tuple[tuple[str, Kind], ...] | None" = None
    """Of a composite type."""
    modifier: int = -1
    """Of a domain: what it adds to the type beneath it, such as a precision."""

    @property
    def is_numeric(self) -> bool:
        return self.type_id == _NUMERIC

    @property
    def is_nested(self) -> bool:
        return self.element is not None or self.fields is not None


def kinds_of(rows: Mapping[int, "TypeRow"], wanted: int) -> Kind:
    """`rows`: for each type; the fields of a composite type as pairs of name and type."""
    kind, base, element, _, fields, modifier = rows.get(wanted, _PLAIN)
    if kind == "d":
        beneath = kinds_of(rows, base)
        return beneath if modifier < 0 else replace(beneath, modifier=modifier)
    if kind == "c":
        return Kind(wanted, fields=tuple((name, kinds_of(rows, int(each))) for name, each in fields or ()))
    if element:
        return Kind(wanted, element=kinds_of(rows, element), delimiter=rows.get(element, _PLAIN)[3])
    return Kind(wanted)


def json_of(text: str, kind: Kind) -> str:
    """Raises ValueError for a text that the type does not have."""
    if kind.element is not None:
        value, _ = _array(text, text.index("{"), kind.element, kind.delimiter)
        return value
    if kind.fields is not None:
        return _composite(text, kind.fields)
    if kind.type_id in _JSONS:
        return text
    if kind.type_id == _BOOLEAN:
        return "true" if text == "t" else "false"
    if kind.type_id in _NUMBERS and _NUMBER.fullmatch(text):
        return text
    if kind.type_id in _TIMES:
        return json.dumps(_iso(text))
    return json.dumps(text, ensure_ascii=False)


def _iso(text: str) -> str:
    """`to_json` writes times as ISO 8601."""
    day, blank, time = text.partition(" ")
    if not blank or not day[:1].isdigit():
        return text
    zone = re.search(r"[-+]\d\d$", time)
    return f"{day}T{time}{':00' if zone else ''}"


def _array(text: str, at: int, element: Kind, delimiter: str) -> tuple[str, int]:
    """The array that begins here, and where it ends."""
    parts: list[str] = []
    at += 1
    while text[at] != "}":
        if text[at] == delimiter:
            at += 1
        if text[at] == "{":
            part, at = _array(text, at, element, delimiter)
        elif text[at] == '"':
            plain, at = _quoted(text, at)
            part = json_of(plain, element)
        else:
            end = at
            while text[end] not in (delimiter, "}"):
                end += 2 if text[end] == "\\" else 1
            plain = text[at:end]
            part = "null" if plain.upper() == "NULL" else json_of(re.sub(r"\\(.)", r"\1", plain), element)
            at = end
        parts.append(part)
    return f"[{','.join(parts)}]", at + 1


def _composite(text: str, fields: "tuple[tuple[str, Kind], ...]") -> str:
    at, parts = 1, []
    for number, (name, kind) in enumerate(fields):
        if number:
            at += 1  # the comma
        if text[at] in ",)":
            part = "null"
        else:
            plain = ""
            while text[at] not in ",)":
                if text[at] == '"':
                    piece, at = _quoted(text, at, doubled=True)
                elif text[at] == "\\":
                    piece, at = text[at + 1], at + 2
                else:
                    piece, at = text[at], at + 1
                plain += piece
            part = json_of(plain, kind)
        parts.append(f"{json.dumps(name, ensure_ascii=False)}:{part}")
    return "{" + ",".join(parts) + "}"


def _quoted(text: str, at: int, *, doubled: bool = False) -> tuple[str, int]:
    """The text in the quotes that begin here, and where they end."""
    found = []
    at += 1
    while True:
        sign = text[at]
        if sign == "\\":
            found.append(text[at + 1])
            at += 2
        elif sign == '"':
            if doubled and text[at + 1 : at + 2] == '"':
                found.append('"')
                at += 2
                continue
            return "".join(found), at + 1
        else:
            found.append(sign)
            at += 1
