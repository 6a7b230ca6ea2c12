import io

import pytest
import typer

from enrich.admin.rows.loading import Counts
from enrich.cli.output import says_yes, time_text
from enrich.cli.table import changes
from enrich.cli.topics import topics


@pytest.mark.parametrize("time", [1_700_000_000_000_000, -(2**63), 2**63 - 1])
def test_a_time_beyond_the_calendar_is_shown_as_a_number(time):
    assert time_text(time) == f"{time} ms"


@pytest.mark.parametrize(
    ("answer", "agrees"), [("y\n", True), ("Yes\n", True), ("n\n", False), ("\n", False), ("?", False)]
)
def test_a_question_is_no_part_of_the_output(monkeypatch, capsys, answer, agrees):
    monkeypatch.setattr("sys.stdin", io.StringIO(answer))
    assert says_yes("go on?") is agrees
    asked = capsys.readouterr()
    assert (asked.out, asked.err) == ("", "go on? [y/N]: ")


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_commands_ask_beside_their_output(monkeypatch, capsys):
    monkeypatch.setattr("sys.stdin", Terminal("y\nn\n"))
    topics._ask()
    assert not changes._confirmed("users", Counts())
    asked = capsys.readouterr()
    assert asked.out == ""
    assert asked.err.count("[y/N]") == 2


def test_who_goes_away_has_not_agreed(monkeypatch):
    monkeypatch.setattr("sys.stdin", io.StringIO(""))
    with pytest.raises(typer.Abort):
        says_yes("go on?")
