"""The page of administration has all the words that scripts get from `--json`."""

import ast
import re
from pathlib import Path

from enrich.admin.topics.checking import Problem

ROOT = Path(__file__).parents[3]
WORDS = set(re.findall(r"`(\w+)`", (ROOT / "docs" / "administration.md").read_text()))


def test_it_names_every_check_of_the_doctor():
    checks = {
        node.args[0].value
        for path in (ROOT / "enrich" / "admin" / "doctor").glob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id in ("good", "warning", "bad")
        and isinstance(node.args[0], ast.Constant)
    }
    assert {"kafka", "rights"} <= checks
    assert checks - WORDS == set()


def test_it_names_everything_that_topics_check_finds():
    assert {problem.value for problem in Problem} - WORDS == set()
