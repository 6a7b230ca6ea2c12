"""What is installed from `requirements.lock` alone runs everything but the embedded stack."""

import ast
import re
import sys
from importlib.metadata import packages_distributions
from pathlib import Path

ROOT = Path(__file__).parents[2]
OURS = ("edge_service", "enrich", "observe_service", "stores", "sync_service", "jobs")
OF_THE_STACK = ("enrich/dev/", "enrich/jars/", "enrich/demo/")


def imported(file):
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            yield str(node.module).partition(".")[0]


def test_every_package_that_programs_import_is_locked_for_them():
    locked = set(re.findall(r"^([a-z0-9._-]+)(?:\[.*\])?==", (ROOT / "requirements.lock").read_text(), re.M))
    distributions = packages_distributions()
    missing = {}
    for folder in OURS:
        for file in (ROOT / folder).rglob("*.py"):
            name = str(file.relative_to(ROOT))
            for package in set() if name.startswith(OF_THE_STACK) else set(imported(file)):
                if package not in sys.stdlib_module_names and package not in OURS:
                    known = {re.sub("[-_.]+", "-", each).lower() for each in distributions.get(package, [package])}
                    if not known & locked:
                        missing[name] = package
    assert missing == {}
