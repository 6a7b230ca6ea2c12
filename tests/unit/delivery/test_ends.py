"""A program whose routes have ended waits for what they share: it has something to write still."""

import json
from argparse import Namespace
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

import sync_service.__main__ as sync
from edge_service.expel import program as expel
from edge_service.retrier import program as retrier
from enrich.config import load
from enrich.delivery.holds import Holds
from enrich.service.routes import Route
from enrich.service.status import Program
from enrich.tally.writing import Tallies
from tests.unit.delivery.pipeline import DELIVERING


@pytest.mark.parametrize(
    ("program", "closed"),
    [(expel, {Holds, Tallies}), (retrier, {Tallies}), (sync, {Tallies})],
    ids=["expel", "retrier", "sync"],
)
def test_what_routes_share_is_closed_once_they_have_ended(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, program: Any, closed: set[type]
) -> None:
    seen: list[object] = []

    def run_routes(routes: Sequence[Route], about: Program, close: Callable[[], object]) -> None:
        assert routes[0].name == "acme"
        assert about.pipeline == "p"
        assert seen == []
        close()

    monkeypatch.setattr(program, "run_routes", run_routes)
    monkeypatch.setattr(program, "leave", lambda: 0)
    for kind in (Holds, Tallies):
        monkeypatch.setattr(kind, "close", lambda one: seen.append(type(one)))
    file = tmp_path / "pipeline.yaml"
    file.write_text(json.dumps(DELIVERING))
    if program is sync:
        monkeypatch.setattr(sync.heaps, "keep_small", lambda: None)
        assert sync._command(Namespace(command="run", config=file)) == 0
    else:
        assert program.run(load(file)) == 0
    assert len(seen) == len(closed)
    assert set(seen) == closed
