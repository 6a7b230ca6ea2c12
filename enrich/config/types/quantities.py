"""Durations and sizes as people write them: `30s`, `2GiB`. A duration is a timedelta, a size a number of bytes."""

import re
from datetime import timedelta
from typing import Annotated

from pydantic import BeforeValidator, PlainSerializer, WithJsonSchema

from enrich.config.messages.words import Wrong, shown

DURATION_PATTERN = r"^(0|[0-9]{1,15}(ms|s|m|h|d))$"
SIZE_PATTERN = r"^[0-9]{1,19}(B|kB|KB|MB|GB|TB|KiB|MiB|GiB|TiB)$"

_MILLISECONDS = {"d": 86_400_000, "h": 3_600_000, "m": 60_000, "s": 1000, "ms": 1}
_BYTES = {"TiB": 2**40, "GiB": 2**30, "MiB": 2**20, "KiB": 2**10}
_DECIMAL_BYTES = {"TB": 10**12, "GB": 10**9, "MB": 10**6, "kB": 1000, "KB": 1000, "B": 1}

# Far beyond any sensible setting, well inside a timedelta, a 64-bit count of milliseconds and Kafka's retention.
LONGEST = timedelta(days=36_500)
LARGEST = 2**60


def parse_duration(value: object) -> timedelta:
    """Raises Wrong for what is no duration. A bare number is refused, but for 0: it does not say its unit."""
    if isinstance(value, timedelta):
        return value
    text = "0" if value == 0 and value is not False else value
    if not isinstance(text, str) or not re.fullmatch(DURATION_PATTERN, text, re.ASCII):
        raise Wrong(f"expected a duration such as 30s, 5m or 1h, got {shown(value)}")
    number, unit = re.fullmatch(r"([0-9]+)([a-z]*)", text, re.ASCII).groups()  # type: ignore[union-attr] # matched above
    milliseconds = int(number) * _MILLISECONDS.get(unit, 1)
    if milliseconds > LONGEST // timedelta(milliseconds=1):
        raise Wrong(f"expected at most {duration_text(LONGEST)}, got {shown(value)}")
    return timedelta(milliseconds=milliseconds)


def duration_text(duration: timedelta) -> str:
    """The shortest text that `parse_duration` reads as the same duration."""
    milliseconds = duration // timedelta(milliseconds=1)
    for unit, size in _MILLISECONDS.items():
        if milliseconds and milliseconds % size == 0:
            return f"{milliseconds // size}{unit}"
    return "0"


def parse_size(value: object) -> int:
    """Raises Wrong for what is no size. A bare number is refused: it does not say its unit."""
    if not isinstance(value, str) or not re.fullmatch(SIZE_PATTERN, value, re.ASCII):
        raise Wrong(f"expected a size such as 512MiB or 2GiB, got {shown(value)}")
    number, unit = re.fullmatch(r"([0-9]+)([A-Za-z]+)", value, re.ASCII).groups()  # type: ignore[union-attr] # matched above
    size = int(number) * (_BYTES | _DECIMAL_BYTES)[unit]
    if size > LARGEST:
        raise Wrong(f"expected at most {size_text(LARGEST)}, got {shown(value)}")
    return size


def size_text(size: int) -> str:
    """The shortest text in binary units that `parse_size` reads as the same size."""
    for unit, count in _BYTES.items():
        if size and size % count == 0:
            return f"{size // count}{unit}"
    return f"{size}B"


def _as_list(value: object) -> object:
    if isinstance(value, list | tuple):
        return tuple(value)
    raise Wrong(f"expected a list of durations such as [30s, 5m], got {shown(value)}")


Duration = Annotated[
    timedelta,
    BeforeValidator(parse_duration),
    PlainSerializer(duration_text),
    WithJsonSchema({"anyOf": [{"type": "string", "pattern": DURATION_PATTERN}, {"const": 0}]}),
]
DurationList = Annotated[
    tuple[Duration, ...],
    BeforeValidator(_as_list),
    WithJsonSchema(
        {"type": "array", "items": {"anyOf": [{"type": "string", "pattern": DURATION_PATTERN}, {"const": 0}]}}
    ),
]
Size = Annotated[
    int,
    BeforeValidator(parse_size),
    PlainSerializer(size_text),
    WithJsonSchema({"type": "string", "pattern": SIZE_PATTERN}),
]
