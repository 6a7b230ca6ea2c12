"""The page of commands is what the commands say of themselves, and each has an example of its own."""

from pathlib import Path

import pytest

from enrich.cli.reference import examples, page

PAGE = Path(__file__).parents[3] / "docs" / "commands.md"


def test_the_page_is_current():
    assert PAGE.read_text() == page(), "python -m enrich.cli.reference > docs/commands.md"


@pytest.mark.parametrize(("command", "example"), list(examples().items()))
def test_every_command_has_an_example_of_itself(command, example):
    assert example is not None and f"{example} ".startswith(f"{command} ")
