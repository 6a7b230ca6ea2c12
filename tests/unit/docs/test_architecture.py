"""The map of the house names things that are there."""

import ast
import re
from pathlib import Path

import pytest

from enrich.host.follow import life as table_life
from enrich.stage.run import life as stage_life

ROOT = Path(__file__).parents[3]
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
PAGE = (ROOT / "docs" / "architecture.md").read_text()
_NAMES = sorted(set(re.findall(r"`((?:[\w./-]+)\.py):([\w.]+)`", PAGE)))
_PATHS = sorted(set(re.findall(r"`((?:edge_service|enrich|stores|sync_service|jobs|tests|docs)/[\w./-]*)`", PAGE)))


@pytest.mark.parametrize(("file", "name"), _NAMES)
def test_every_function_and_class_on_the_map_is_where_it_says(file, name):
    found = set()
    for node in ast.parse((ROOT / file).read_text()).body:
        if isinstance(node, ast.ClassDef):
            found |= {node.name, *(f"{node.name}.{one.name}" for one in node.body if isinstance(one, _FUNCTIONS))}
        elif isinstance(node, _FUNCTIONS):
            found.add(node.name)
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            found.add(node.target.id)
    assert name in found


@pytest.mark.parametrize("path", _PATHS)
def test_every_file_and_room_on_the_map_exists(path):
    assert (ROOT / path).exists()


def test_the_map_has_every_room():
    rooms = {f"`{path.parent.relative_to(ROOT)}`" for path in (ROOT / "enrich").glob("*/__init__.py")}
    assert {room for room in rooms if room not in PAGE} == set()


@pytest.mark.parametrize("machine", [table_life, stage_life], ids=["table", "stage"])
def test_the_lives_on_the_map_are_those_of_the_machines(machine):
    for (phase, happening), after in machine.NEXT.items():
        assert f"| {phase} | {happening} | {after} |" in PAGE


def test_the_glossary_explains_at_most_forty_words():
    words = re.findall(r"^- \*\*", (ROOT / "docs" / "glossary.md").read_text(), re.MULTILINE)
    assert 0 < len(words) <= 40


def test_every_decision_is_in_the_index_and_every_line_of_the_index_is_a_decision():
    folder = ROOT / "docs" / "adr"
    index = (folder / "README.md").read_text()
    linked = re.findall(r"\]\((\d{4}-[\w-]+\.md)\)", index)
    assert sorted(linked) == sorted(path.name for path in folder.glob("0*.md"))


def test_every_page_is_linked_from_the_front_page_of_the_docs():
    front = (ROOT / "docs" / "README.md").read_text()
    pages = {path.name for path in (ROOT / "docs").glob("*.md")} - {"README.md"}
    assert {page for page in pages if f"]({page})" not in front} == set()


@pytest.mark.parametrize("page", sorted((ROOT / "docs").rglob("*.md")), ids=lambda page: page.stem)
def test_every_link_of_a_page_leads_to_a_file(page):
    links = re.findall(r"\]\(([^)#\s]+?)(?:#[\w-]*)?\)", page.read_text())
    ours = [link for link in links if "://" not in link]
    assert [link for link in ours if not (page.parent / link).exists()] == []


def _anchors(page: Path) -> set[str]:
    """The names by which a browser finds the headings of a page."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", sorted((ROOT / "docs").rglob("*.md")), ids=lambda page: page.stem)
def test_every_link_to_a_heading_leads_to_one(page):
    links = re.findall(r"\]\(([^)#\s:]*)#([\w-]+)\)", page.read_text())
    assert [(link, to) for link, to in links if to not in _anchors(page.parent / link if link else page)] == []
