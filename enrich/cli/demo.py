"""`enrich demo`: shows the product in a minute, on temporary servers."""

import sys
import time
from typing import TYPE_CHECKING, Annotated

import typer

from enrich.base.json_lines import print_json

if TYPE_CHECKING:
    from rich.panel import Panel

    from enrich.demo import Chapter, DemoWorld, Figures

_LOOK_S, _GLANCE_S = 6.0, 0.5
_END = "Next: examples/demo/pipeline.yaml, enrich dev up"
_WARMING = "warming"


def demo(
    json: Annotated[bool, typer.Option("--json", help="One JSON object per chapter.")] = False,
    quick: Annotated[bool, typer.Option("--quick", help="Without pauses for reading.")] = False,
) -> None:
    """Shows enrich at work: a stage joins events with three tables while a row changes, Redis stops and the agent dies.

    Example: enrich demo
    """
    from enrich.demo import demo_world, tell_story

    look_s = _GLANCE_S if quick else _LOOK_S
    began = time.monotonic()
    with demo_world(quiet=json) as world:
        if json:
            for chapter in tell_story(world, look_s):
                print_json({"chapter": chapter.name, "title": chapter.title, **chapter.facts})
        elif sys.stdout.isatty():
            _on_terminal(world, look_s)
        else:
            _in_lines(world, look_s)
    if not json:
        seconds = time.monotonic() - began
        typer.echo(f"\nThe demo's servers, its stage and its agent have ended, after {seconds:.0f} s.\n{_END}")


def _in_lines(world: "DemoWorld", look_s: float) -> None:
    from enrich.demo import tell_story

    for number, chapter in enumerate(tell_story(world, look_s, lambda what: typer.echo(f"... {what}")), start=1):
        typer.echo(f"{number}. {chapter.title}\n   {chapter.result}\n   now: {_figures(world)}")


def _on_terminal(world: "DemoWorld", look_s: float) -> None:
    from rich.live import Live

    from enrich.demo import tell_story

    panel = _Panel(world)
    with Live(panel, refresh_per_second=4):
        for chapter in tell_story(world, look_s, panel.announce):
            panel.add(chapter)


class _Panel:
    """Live figures above the chapters so far, drawn by rich."""

    def __init__(self, world: "DemoWorld") -> None:
        self._world = world
        self._now, self._since = "", 0.0
        self._chapters: list[Chapter] = []

    def announce(self, what: str) -> None:
        self._now, self._since = what, time.monotonic()

    def add(self, chapter: "Chapter") -> None:
        self._now = ""
        self._chapters = [*self._chapters, chapter]

    def __rich__(self) -> "Panel":
        from rich.console import Group
        from rich.padding import Padding
        from rich.panel import Panel
        from rich.table import Table
        from rich.text import Text

        figures = self._world.watch.figures()
        lag, freshness = _lags(self._world, figures)
        grid = Table.grid(expand=True)
        cells = (
            ("events/s", f"{figures.per_second:,.0f}"),
            ("p95 lag", lag),
            ("hit rate", _or_dash(figures.hit_rate, "{:.1%}")),
            ("freshness", freshness),
            ("enriched", f"{figures.enriched:,}"),
            ("dead letters", f"{figures.dead_letters:,}"),
        )
        for _ in cells:
            grid.add_column(justify="center")
        grid.add_row(*(Text(value, style="bold cyan") for _, value in cells))
        grid.add_row(*(Text(name, style="dim") for name, _ in cells))
        lines: list[Text | Padding] = []
        for number, chapter in enumerate(self._chapters, start=1):
            lines.append(Text(f"{number}. {chapter.title}", style="bold"))
            lines.append(Padding(Text(chapter.result, style="green"), (0, 0, 0, 3)))
        if self._now:
            seconds = time.monotonic() - self._since  # a sign of life while a slow machine starts Spark
            lines.append(Text(f"{len(self._chapters) + 1}. {self._now} ... {seconds:.0f} s", style="yellow"))
        return Panel(Group(grid, Text(""), *lines), title="enrich: plays joined with users, devices and networks")


def _figures(world: "DemoWorld") -> str:
    figures = world.watch.figures()
    lag, freshness = _lags(world, figures)
    hits = _or_dash(figures.hit_rate, "{:.1%}")
    return f"{figures.per_second:,.0f} events/s, p95 lag {lag}, hit rate {hits}, freshness {freshness}"


def _lags(world: "DemoWorld", figures: "Figures") -> tuple[str, str]:
    """The lag of events, and the age of the tables' answers."""
    if not world.is_warm:
        return _WARMING, _WARMING
    return _or_dash(figures.p95_ms, "{:,.0f} ms"), _or_dash(world.behind_s(), "{:.1f} s")


def _or_dash(value: float | None, form: str) -> str:
    return "-" if value is None else form.format(value)
