"""Shows the start of servers on a terminal: one line per server, removed at the end. Shows nothing elsewhere."""

import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from enrich.jars import Progress

if TYPE_CHECKING:
    from rich.table import Table

_READY = "ready"


class Display:
    """The lines, fed by `step` and `report` from several threads, drawn by rich ten times a second."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._lines: dict[str, tuple[str, float, float | None]] = {}  # server -> what it does, begin, end
        self._download: Progress | None = None

    def step(self, server: str, what: str) -> None:
        now = time.monotonic()
        with self._lock:
            begin = self._lines.get(server, (what, now, None))[1]
            self._lines[server] = (what, begin, now if what == _READY else None)

    def report(self, download: Progress) -> None:
        with self._lock:
            self._download = download

    def __rich__(self) -> "Table":
        from rich.progress_bar import ProgressBar
        from rich.table import Table

        table = Table.grid(padding=(0, 2))
        with self._lock:
            if self._download is not None and not self._lines:
                download = self._download
                bar = ProgressBar(total=download.files, completed=download.done, width=30)
                files = f"{int(download.done)}/{download.files}, {download.received >> 20} MB"
                table.add_row("Java archives", bar, files)
            for server, (what, begin, end) in self._lines.items():
                colour = "green" if what == _READY else "yellow"
                table.add_row(server, f"[{colour}]{what}[/]", f"{(end or time.monotonic()) - begin:.1f} s")
        return table


@contextmanager
def shown(*, quiet: bool = False) -> Iterator[Display]:
    """A display that is drawn on stderr while the block runs, if stderr is a terminal."""
    display = Display()
    if quiet or not sys.stderr.isatty():
        yield display
        return
    from rich.console import Console
    from rich.live import Live

    with Live(display, console=Console(stderr=True), transient=True, refresh_per_second=10):
        yield display
