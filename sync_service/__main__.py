"""`python -m sync_service`: not built yet, and says so instead of pretending to work."""

import sys

from enrich.errors import ConfigError


def main() -> int:
    error = ConfigError(
        "the sync service is not built yet: nothing was started",
        next_step="leave it out (docker compose: without `--profile sync`)",
    )
    sys.stderr.write(f"error: {error}\n")
    return 2  # what the command line ends with for usage and configuration


if __name__ == "__main__":
    sys.exit(main())
