"""A progress bar for downloads on a terminal; nothing elsewhere."""

import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import cache

from enrich.jars.fetch import Progress, Report


@contextmanager
def shown() -> Iterator[Report | None]:
    """A callback that draws a bar on stderr from the first byte on, or None if stderr is not a terminal."""
    if not sys.stderr.isatty():
        yield None
        return
    with ExitStack() as open_bar:

        @cache
        def bar(files: int) -> Report:
            # Imported and started only if something is downloaded: with a full cache this must be fast and silent.
            from rich import progress as rich_progress
            from rich.console import Console

            columns = (
                rich_progress.TextColumn("Java archives"),
                rich_progress.BarColumn(),
                rich_progress.TextColumn("{task.fields[text]}"),
                rich_progress.TimeElapsedColumn(),
            )
            bar = rich_progress.Progress(*columns, console=Console(stderr=True), transient=True)
            drawn = open_bar.enter_context(bar)
            task = drawn.add_task("", total=files, text="")

            def draw(now: Progress) -> None:
                text = f"{int(now.done)}/{now.files} files, {now.received >> 20} MB"
                drawn.update(task, completed=now.done, text=text)

            return draw

        yield lambda now: bar(now.files)(now)
