"""Re-exports the error tree of `stores.errors` for the packages above `stores`."""

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
