"""Output of programs for machines: one JSON object per line."""

import base64
import json
import re
import sys
from datetime import datetime
from typing import Any

_SEPARATORS = (", ", ": ")

# A terminal obeys these, or what reads lines takes them for the end of one, and JSON does not ask for escapes. They
# stand in texts only.
_CONTROL = re.compile("[\x7f-\x9f\u2028\u2029]")


def print_json(value: dict[str, Any]) -> None:
    """Prints one JSON object on one line of stdout, with escapes if its encoding lacks a letter."""
    text = json_text(value)
    try:
        text.encode(sys.stdout.encoding or "utf-8")
    except UnicodeEncodeError:
        text = json.dumps(json.loads(text), separators=_SEPARATORS)
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def json_text(value: dict[str, Any]) -> str:
    """JSON on one line, also of rows: bytes as base64, decimals as text, times in ISO 8601, maps as objects."""
    return escaped(json.dumps(_plain(value), ensure_ascii=False, separators=_SEPARATORS, default=str))


def escaped(text: str) -> str:
    """JSON that is one line for whoever reads it."""
    return text if text.isprintable() else _CONTROL.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def _plain(value: Any) -> Any:
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, dict):
        return {name: _plain(inner) for name, inner in value.items()}
    if isinstance(value, list):
        # Arrow returns a map as a list of pairs.
        if value and all(isinstance(inner, tuple) for inner in value):
            return {str(key): _plain(inner) for key, inner in value}
        return [_plain(inner) for inner in value]
    return value
