"""`--conf NAME=VALUE`, as commands and programs that start Spark take it."""

from collections.abc import Sequence

from enrich.base.errors import ConfigError


def parse_settings(given: Sequence[str]) -> dict[str, str]:
    """By name. Raises ConfigError for what has no value."""
    pairs = [text.partition("=") for text in given]
    for name, separator, _ in pairs:
        if not separator:
            raise ConfigError(f"expected NAME=VALUE, got {name}", where="--conf")
    return {name: value for name, _, value in pairs}
