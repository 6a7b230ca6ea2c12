"""What a stage must make of its events, in plain Python and without any of the product's code."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Rows = Mapping[str, Mapping[str, Any] | None]
"""Of a table: key -> row; None is a tombstone."""


@dataclass(frozen=True)
class Expected:
    """Of one event: where it goes, and what stands there."""

    to: str
    """out, dlq or nowhere."""
    value: dict[str, Any] | None = None
    reason: str | None = None
    lookup: str | None = None


def parsed(value: bytes | None) -> dict[str, Any] | None:
    """The event; None for what is no JSON object."""

    def refuse(constant: str) -> None:
        raise ValueError(constant)

    def whole(text: str) -> int | None:  # Python takes no more digits
        return int(text) if len(text) <= 4_000 else None

    try:
        event = json.loads((value or b"").decode("utf-8"), parse_constant=refuse, parse_int=whole)
    except (ValueError, RecursionError):
        return None
    return event if isinstance(event, dict) else None


def expected(value: bytes | None, lookups: Sequence[Mapping[str, Any]], tables: Mapping[str, Rows]) -> Expected:
    """`lookups` as in the configuration, with keys that are plain fields of text."""
    event = parsed(value)
    if event is None:
        return Expected("dlq", reason="the event")
    objects: dict[str, Any] = {}
    fate: Expected | None = None
    for lookup in lookups:
        status, row = _found(event.get(lookup["key"]), tables[lookup["table"]], lookup["select"])
        policy = lookup.get("on_miss", "null")
        if row is None and policy == "default":
            row = {name: lookup["default"].get(name) for name in lookup["select"]}
        elif row is None and policy == "drop":
            fate = fate or Expected("nowhere")
        elif row is None and policy == "dlq":
            reason = f"no row in the table {lookup['table']}: {status}"
            fate = fate or Expected("dlq", reason=reason, lookup=lookup["as"])
        objects[lookup["as"]] = row
    return fate or Expected("out", value={**event, **objects})


def _found(key: Any, rows: Rows, select: Sequence[str]) -> tuple[str, dict[str, Any] | None]:
    if key is None:
        return "null_key", None
    text = key if isinstance(key, str) else json.dumps(key)
    if text not in rows:
        return "miss", None
    row = rows[text]
    return ("deleted", None) if row is None else ("hit", {name: row.get(name) for name in select})
