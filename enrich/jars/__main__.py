"""`python -m enrich.jars` fetches every locked Java archive; with `--lock` it rewrites the lock file first."""

import argparse
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from enrich.base.exits import outcome
from enrich.jars.cache import cache_folder, user_cache
from enrich.jars.fetch import Progress, Report


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m enrich.jars", description=__doc__)
    parser.add_argument("--lock", action="store_true", help="rewrite jars.lock from the top-level coordinates")
    if parser.parse_args().lock:
        from enrich.jars.relock import relock

        relock()
    with _shown() as report:
        cache = user_cache()
        cache.fetch_all(report)
        cache.unpacked("registry", report)
    print(f"all Java archives are in {cache_folder()}, verified")  # noqa: T201 - a small program, for the set-up
    return 0


@contextmanager
def _shown() -> Iterator[Report | None]:
    """A callback that draws a bar on stderr from the first byte on, or None if stderr is not a terminal."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich import progress as rich
    from rich.console import Console

    columns = (rich.TextColumn("Java archives"), rich.BarColumn(), rich.TextColumn("{task.fields[text]}"))
    with rich.Progress(*columns, rich.TimeElapsedColumn(), console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("", visible=False, text="")

        def draw(now: Progress) -> None:
            text = f"{int(now.done)}/{now.files} files, {now.received >> 20} MB"
            bar.update(task, total=now.files, completed=now.done, text=text, visible=True)

        yield draw


if __name__ == "__main__":
    try:
        sys.exit(outcome(main))
    except KeyboardInterrupt:
        sys.exit(130)
