"""What docstrings and comments say of other files is so."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[3]
OURS = ("edge_service", "enrich", "jobs", "observe_service", "stores", "sync_service")
_FILE = re.compile(r"(?<![\"'\w])\b[\w/]+\.py\b")
"""But for what is text of the program itself."""


def test_every_file_that_is_named_in_another_one_is_there():
    """From its own folder, or from one above it."""
    lost = []
    for file in (file for folder in OURS for file in (ROOT / folder).rglob("*.py")):
        above = [folder for folder in file.parents if folder.is_relative_to(ROOT)]
        named = _FILE.findall(file.read_text())
        lost += [f"{file}: {name}" for name in named if not any((folder / name).exists() for folder in above)]
    assert lost == []
