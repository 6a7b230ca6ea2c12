"""`enrich demo`: shows the product in a minute, on temporary servers."""

import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from enrich.base.exits import DIFFERENCE
from enrich.base.json_lines import print_json

if TYPE_CHECKING:
    from enrich.demo import DemoWorld

_LOOK_S, _GLANCE_S = 3.0, 0.5
_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_END = "Next: examples/demo/pipeline.yaml, docs/ingest.md, docs/delivery.md, enrich dev up"


def demo(
    json: Annotated[bool, typer.Option("--json", help="One JSON object per chapter.")] = False,
    quick: Annotated[bool, typer.Option("--quick", help="Without pauses for reading.")] = False,
) -> None:
    """Shows enrich at work: events come by HTTP, are joined with three tables, and go to two customers by HTTP, while a
    row changes, a customer dies, and ingest, agent and expel are killed. Exits with 1 if an event was lost.

    Example: enrich demo
    """
    from enrich.demo import demo_world, tell_story

    for number in _ENDING:
        if signal.getsignal(number) is not signal.SIG_IGN:  # as under nohup
            signal.signal(number, _end)
    look_s = _GLANCE_S if quick else _LOOK_S
    began = time.monotonic()
    holds = True
    with demo_world(quiet=json) as world, _ended_in_peace():
        if json:
            for chapter in tell_story(world, look_s):
                print_json({"chapter": chapter.name, "title": chapter.title, **chapter.facts})
                holds &= chapter.holds
        elif _is_drawn_on():
            holds = _on_terminal(world, look_s)
        else:
            holds = _in_lines(world, look_s)
    if not json:
        seconds = time.monotonic() - began
        typer.echo(f"\nThe demo's servers and programs have ended, after {seconds:.0f} s.\n{_END}")
    if not holds:
        raise typer.Exit(DIFFERENCE)


def _end(signum: int, frame: FrameType | None) -> NoReturn:  # noqa: ARG001 - the signature of a handler
    # Servers and programs have sessions of their own, and are ended by the unwinding.
    _heed_no_more()
    raise KeyboardInterrupt if signum == signal.SIGINT else SystemExit(128 + signum)


def _heed_no_more() -> None:
    """A signal must not break off the end: shell and kernel send one each when the terminal goes away, and people press
    Ctrl-C again, or once nothing more is told."""
    for number in _ENDING:
        signal.signal(number, signal.SIG_IGN)


@contextmanager
def _ended_in_peace() -> Iterator[None]:
    """It takes seconds, and people wait for it."""
    try:
        yield
    except KeyboardInterrupt:
        typer.echo("ending the demo's servers and programs ...", err=True)
        raise
    finally:
        _heed_no_more()


def _is_drawn_on() -> bool:
    from rich.console import Console

    # On a terminal that cannot move its cursor, as in an editor, nothing would be seen until the end.
    return sys.stdout.isatty() and not Console().is_dumb_terminal


def _in_lines(world: "DemoWorld", look_s: float) -> bool:
    from enrich.cli.demo_screen import figures_line
    from enrich.demo import tell_story

    holds = True

    def say(line: str) -> None:
        typer.echo(line)
        sys.stdout.flush()

    for number, chapter in enumerate(tell_story(world, look_s, lambda what: say(f"... {what}")), start=1):
        say(f"{number}. {chapter.title}\n   {chapter.result}\n   now: {figures_line(world)}")
        holds &= chapter.holds
    return holds


def _on_terminal(world: "DemoWorld", look_s: float) -> bool:
    from rich.console import Console
    from rich.live import Live

    from enrich.cli.demo_screen import Screen
    from enrich.demo import tell_story

    console = Console(highlight=False)
    screen = Screen(world)
    holds = True
    with Live(screen, console=console, refresh_per_second=4, transient=True):
        for chapter in tell_story(world, look_s, screen.announce):
            screen.add(chapter)
            holds &= chapter.holds
    # It need not fit into the terminal any more.
    screen.show_all()
    console.print(screen)
    return holds
