"""Dead letters in a file are named until somebody takes the file away, also those of an earlier run."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from edge_service.expel import program as expel
from enrich.config import Pipeline, load_text
from enrich.service.routes import Route
from sync_service.writeback.plan import plans_of
from sync_service.writeback.route import Clients, WritebackRoute
from tests.unit.delivery.pipeline import DELIVERING


def expelling(pipeline: Pipeline) -> Route:
    (route,) = expel.routes_of(pipeline)
    return route


def writeback(pipeline: Pipeline) -> Route:
    (plan,) = plans_of(pipeline)
    return WritebackRoute(plan, Clients(pipeline))


@pytest.mark.parametrize(
    ("folder", "route_of"), [("expel", expelling), ("sync-writeback", writeback)], ids=["expel", "write-back"]
)
def test_letters_that_an_earlier_run_has_kept_are_named(
    tmp_path: Path, folder: str, route_of: Callable[[Pipeline], Route]
) -> None:
    pipeline = load_text(json.dumps({**DELIVERING, "state_dir": str(tmp_path)}), {})
    file = tmp_path / "p" / folder / "acme.dead-letters.jsonl"
    route = route_of(pipeline)
    assert str(file) not in str(route.status().details["warnings"])
    file.parent.mkdir(parents=True)
    file.write_text("{}\n")
    assert str(file) in str(route.status().details["warnings"])
    file.rename(tmp_path / "taken")
    assert str(file) not in str(route.status().details["warnings"])
