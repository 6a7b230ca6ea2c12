"""Pages lead to what is there: their links, and the commands that they show."""

import re
import shlex
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from tests.support.typed import typed_problem

ROOT = Path(__file__).parents[3]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "bench").rglob("*.md")])
_FENCED = re.compile(r"^```.*?^```", re.M | re.S)
_COMMAND = re.compile(r"^ *(?:[A-Z_]+=\S+ )*enrich (.+)$", re.M)


def named(page: Path) -> str:
    return str(page.relative_to(ROOT))


@cache
def anchors_of(page: Path) -> set[str]:
    """As GitHub makes them of headings."""
    headings = re.findall(r"^#+ (.+)$", _FENCED.sub("", page.read_text()), re.M)
    texts = (re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading).lower() for heading in headings)
    return {re.sub(r"[^\w\- ]", "", text.strip()).replace(" ", "-") for text in texts}


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_every_link_leads_to_a_file_and_a_heading(page):
    wrong = []
    for link in re.findall(r"\]\(([^)\s]+)\)", _FENCED.sub("", page.read_text())):
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        if re.match(r"https?:", link):
            continue
        if not target.exists() or (anchor and target.suffix == ".md" and anchor not in anchors_of(target)):
            wrong.append(link)
    assert wrong == []


def commands_on(text: str) -> Iterator[list[str]]:
    """Whole lines, and what stands between backticks. Without comments, and what pipes and redirections lead to."""
    whole = text.replace("\\\n", " ")
    for command in (*_COMMAND.findall(whole), *re.findall(r"`enrich ([^`\n]+)`", whole)):
        lexer = shlex.shlex(re.split(r"\s[|>&#]|; | {4}|…|\.\.\.", command)[0], posix=True, punctuation_chars=False)
        lexer.whitespace_split, lexer.commenters = True, ""
        yield list(lexer)


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_every_command_on_a_page_exists_with_its_options(page):
    problems = {" ".join(words): typed_problem(words) for words in commands_on(page.read_text())}
    assert {words: problem for words, problem in problems.items() if problem} == {}


def test_commands_that_do_not_exist_are_found():
    text = "    enrich table fetch users\nAs `enrich run x --colour red`, or\n    A=1 enrich dev up --json | cat"
    found = [typed_problem(words) for words in commands_on(text)]
    assert found == ["table has no command fetch", None, "run has no option --colour"]
