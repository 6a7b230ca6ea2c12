"""What people see while servers start."""

from rich.console import Console

from enrich.dev.progress import Display, shown
from enrich.jars import Progress


def drawn(display):
    console = Console(record=True, width=100)
    console.print(display)
    return console.export_text()


def test_downloads_are_shown_until_the_first_server_starts():
    display = Display()
    display.report(Progress(files=46, done=11.5, received=12 << 20))
    assert "11/46, 12 MB" in drawn(display)
    display.step("redis", "starting")
    assert "Java archives" not in drawn(display)


def test_each_server_has_a_line_with_what_it_does_and_how_long_it_took():
    display = Display()
    for what in ("preparing", "starting", "ready"):
        display.step("redis", what)
    display.step("kafka", "preparing")
    assert [line.split()[:2] for line in drawn(display).splitlines()] == [["redis", "ready"], ["kafka", "preparing"]]


def test_where_nobody_looks_nothing_is_drawn(capfd):
    with shown() as display:
        display.step("redis", "ready")
    assert capfd.readouterr() == ("", "")
