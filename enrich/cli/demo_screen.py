"""What `enrich demo` draws: live figures above the chapters so far."""

import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

from rich.console import Console, ConsoleOptions, Group, RenderableType
from rich.padding import Padding
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:
    from enrich.demo import Chapter, DemoWorld, Figures

_TITLE = "enrich: plays by HTTP, joined with three tables, to two customers by HTTP"
_WARMING = "warming"
_ABOVE = 11
"""Lines of frame and figures."""


class Screen:
    """Chapters that are over take a line each if the terminal is too low for all of them."""

    def __init__(self, world: "DemoWorld") -> None:
        self._world = world
        self._now, self._since_s = "", 0.0
        self._chapters: list[Chapter] = []
        self._shows_all = False

    def announce(self, what: str) -> None:
        self._now, self._since_s = what, time.monotonic()

    def add(self, chapter: "Chapter") -> None:
        self._now = ""
        self._chapters = [*self._chapters, chapter]

    def show_all(self) -> None:
        self._shows_all = True

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[RenderableType]:
        figures = self._world.watch.figures()
        parts: list[RenderableType] = [self._events(figures), Text(""), self._customers(figures), Text("")]
        parts += self._story(console, options)
        yield Panel(Group(*parts), title=_TITLE)

    def _events(self, figures: "Figures") -> Table:
        world, sender = self._world, self._world.sender
        freshness = _or_dash(world.behind_s(), "{:.1f} s") if world.is_warm else _WARMING
        return _grid(
            ("sent/s", f"{sender.per_second:,.0f}"),
            ("acknowledged", f"{len(sender.acknowledged):,}"),
            ("sent again", f"{sender.sent_again:,}"),
            ("hit rate", _or_dash(figures.hit_rate, "{:.1%}")),
            ("freshness", freshness),
            ("dead letters", f"{figures.dead_letters:,}"),
        )

    def _customers(self, figures: "Figures") -> Table:
        table = Table(box=None, expand=True, header_style="dim", padding=(0, 1))
        table.add_column("customer", no_wrap=True)
        for name in ("events/s", "p95 lag", "delivered", "in retry topics"):
            table.add_column(name, justify="right", no_wrap=True)
        table.add_column("breaker", no_wrap=True)
        for name, customer in figures.customers.items():
            route = customer.route
            table.add_row(
                Text(name, style="bold"),
                Text(f"{customer.per_second:,.0f}", style="bold cyan"),
                Text(_lag(self._world, customer.p95_ms), style="bold cyan"),
                Text(f"{customer.delivered:,}", style="bold cyan"),
                Text(_or_dash(route.waiting, "{:,}"), style="bold cyan"),
                Text(route.breaker or "-", style="green" if route.is_up else "bold red"),
            )
        return table

    def _story(self, console: Console, options: ConsoleOptions) -> list[RenderableType]:
        chapters = [
            self._told(number, chapter, is_whole=True) for number, chapter in enumerate(self._chapters, start=1)
        ]
        lines = [
            console.render_lines(Group(*chapter), options.update(width=options.max_width - 4, height=None))
            for chapter in chapters
        ]
        room = console.height - _ABOVE - 3
        heights = [len(each) for each in lines]
        number = 0
        # The last one stays whole: it is what the viewer reads.
        while not self._shows_all and sum(heights) > room and number < len(chapters) - 1:
            chapters[number] = self._told(number + 1, self._chapters[number], is_whole=False)
            heights[number] = 1
            number += 1
        parts = [part for chapter in chapters for part in chapter]
        if self._now:
            seconds = time.monotonic() - self._since_s  # a sign of life while a slow machine starts Spark
            parts.append(Text(f"{len(self._chapters) + 1}. {self._now} ... {seconds:.0f} s", style="yellow"))
        return parts

    @staticmethod
    def _told(number: int, chapter: "Chapter", *, is_whole: bool) -> list[RenderableType]:
        style = "green" if chapter.holds else "bold red"
        if not is_whole:
            return [Text(f"{number}. {chapter.title}", style="dim", no_wrap=True, overflow="ellipsis")]
        title = Text(f"{number}. {chapter.title}", style="bold")
        return [title, Padding(Text(chapter.result, style=style), (0, 0, 0, 3))]


def figures_line(world: "DemoWorld") -> str:
    """The same for a log."""
    figures, sender = world.watch.figures(), world.sender
    customers = "; ".join(
        f"{name}: {customer.per_second:,.0f} events/s, p95 lag {_lag(world, customer.p95_ms)}, breaker "
        f"{customer.route.breaker or '-'}, {_or_dash(customer.route.waiting, '{:,}')} in retry topics"
        for name, customer in figures.customers.items()
    )
    hits = _or_dash(figures.hit_rate, "{:.1%}")
    return f"{len(sender.acknowledged):,} acknowledged, {sender.per_second:,.0f}/s, hit rate {hits}; {customers}"


def _grid(*cells: tuple[str, str]) -> Table:
    grid = Table.grid(expand=True)
    for _ in cells:
        grid.add_column(justify="center")
    grid.add_row(*(Text(value, style="bold cyan") for _, value in cells))
    grid.add_row(*(Text(name, style="dim") for name, _ in cells))
    return grid


def _lag(world: "DemoWorld", value: float | None) -> str:
    return _or_dash(value, "{:,.0f} ms") if world.is_warm else _WARMING


def _or_dash(value: float | None, form: str) -> str:
    return "-" if value is None else form.format(value)
