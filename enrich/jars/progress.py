"""A progress bar for downloads on a terminal; nothing elsewhere."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from enrich.jars.fetch import Progress, Report


@contextmanager
def shown() -> Iterator[Report | None]:
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
