"""The tree of errors, under the name that the rooms above `stores` use."""

from stores.errors import (
    BadRecord,
    ConfigError,
    CorruptState,
    EnrichError,
    Fatal,
    Fenced,
    RefusedForNow,
    Retryable,
    TooSlow,
    Unreachable,
    WouldLoseData,
)

__all__ = [
    "BadRecord",
    "ConfigError",
    "CorruptState",
    "EnrichError",
    "Fatal",
    "Fenced",
    "RefusedForNow",
    "Retryable",
    "TooSlow",
    "Unreachable",
    "WouldLoseData",
]
