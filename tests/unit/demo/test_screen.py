"""The screen of the demo fits into a small terminal: it is neither wider nor higher, and the last chapter is whole."""

import io
from types import SimpleNamespace
from typing import Any

import pytest
from rich.console import Console

from enrich.cli.demo_screen import Screen
from enrich.demo import Chapter, Figures
from enrich.demo.pages import RouteFigures
from enrich.demo.watch import CustomerFigures

CUSTOMERS = {
    "acme": CustomerFigures(1_234.5, 1_234.5, 123_456, RouteFigures("closed", 0, 0)),
    "globex": CustomerFigures(0.0, None, 123_456, RouteFigures("probing", 12_345, 12_345)),
}
WORLD: Any = SimpleNamespace(
    is_warm=True,
    behind_s=lambda: 12.3,
    sender=SimpleNamespace(per_second=500.0, acknowledged=range(123_456), sent_again=123),
    watch=SimpleNamespace(figures=lambda: Figures(CUSTOMERS, 0.987, 1_234)),
)
SENTENCE = "something was killed, and everything that it should have done was done by another one"


def drawn(width, height, chapters, *, whole=False):
    screen = Screen(WORLD)
    for number in range(chapters):
        screen.add(Chapter(str(number), f"chapter {number}", f"result {number}: {SENTENCE * 3}", {}))
    screen.announce("something is killed")
    if whole:
        screen.show_all()
    out = io.StringIO()
    console = Console(width=width, height=height, file=out)
    console.print(screen)
    return out.getvalue().splitlines()


@pytest.mark.parametrize("width", [80, 120])
@pytest.mark.parametrize("chapters", range(8))
def test_it_fits_into_the_terminal_and_shows_the_last_chapter_whole(width, chapters):
    lines = drawn(width, 24, chapters)
    assert max(map(len, lines)) == width
    assert len(lines) <= 24
    text = "\n".join(lines)
    assert all(f"chapter {number}" in text for number in range(chapters))
    assert not chapters or f"result {chapters - 1}:" in text
    assert "something is killed" in text
    for word in ("12,345", "123,456", "probing", "1,234 ms", "98.7%", "in retry topics", "acknowledged"):
        assert word in text


def test_at_the_end_everything_is_whole():
    text = "\n".join(drawn(80, 24, 7, whole=True))
    assert all(f"result {number}:" in text for number in range(7))
