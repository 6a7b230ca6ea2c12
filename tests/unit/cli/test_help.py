"""What `--help` says on a terminal of usual width."""

import re
from itertools import dropwhile, takewhile

import pytest
from typer.testing import CliRunner

from enrich.cli.main import app
from enrich.cli.reference import examples


def shown(command: str) -> str:
    return CliRunner(env={"COLUMNS": "80"}).invoke(app, [*command.split()[1:], "--help"]).stdout


@pytest.mark.parametrize("command", ["enrich", *examples()])
def test_no_flag_looks_as_if_it_took_a_value_and_the_usage_has_each_bracket_once(command: str) -> None:
    text = shown(command)
    assert not re.findall(r".*<bool>.*|.*<float.*", text)
    rest = dropwhile(lambda line: "Usage:" not in line, text.splitlines())
    usage = " ".join(takewhile(str.strip, rest))
    assert "Usage:" in usage and not re.search(r"\[\[|\]\]|\.\.\.[]}]", usage), usage


def test_paragraphs_break_at_the_edge_of_the_terminal_only() -> None:
    (line,) = [line for line in shown("enrich demo").splitlines() if "while a" in line]
    assert len(line.rstrip()) > 70
