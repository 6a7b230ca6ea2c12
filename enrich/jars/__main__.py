"""`python -m enrich.jars` fetches every locked Java archive; with `--lock` it rewrites the lock file first."""

import argparse
import sys

from enrich.base.exits import outcome
from enrich.jars.cache import cache_folder, user_cache
from enrich.jars.progress import shown


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m enrich.jars", description=__doc__)
    parser.add_argument("--lock", action="store_true", help="rewrite jars.lock from the top-level coordinates")
    if parser.parse_args().lock:
        from enrich.jars.relock import relock

        relock()
    with shown() as report:
        cache = user_cache()
        cache.fetch_all(report)
        cache.unpacked("registry", report)
    print(f"all Java archives are in {cache_folder()}, verified")  # noqa: T201 - a small program, for the set-up
    return 0


if __name__ == "__main__":
    try:
        sys.exit(outcome(main))
    except KeyboardInterrupt:
        sys.exit(130)
