"""`--conf NAME=VALUE`, for commands and programs that start Spark."""

from collections.abc import Sequence

from enrich.base.errors import ConfigError


def parse_settings(given: Sequence[str]) -> dict[str, str]:
    """Values by name. Raises ConfigError for a text without a value."""
    pairs = [text.partition("=") for text in given]
    for name, separator, _ in pairs:
        if not separator:
            raise ConfigError(f"expected NAME=VALUE, got {name}", where="--conf")
    return {name: value for name, _, value in pairs}
