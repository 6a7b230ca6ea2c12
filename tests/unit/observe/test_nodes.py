"""What pages of programs say, and which alarms follow from it."""

import json
import time
from typing import Any

import pytest

from observe_service.alarms.causes import of_statuses
from observe_service.watching import nodes
from observe_service.watching.nodes import Asked, NodesWatch
from tests.support.servers.scripted_endpoint import ScriptedEndpoint, answers, sends_slowly
from tests.support.waiting import wait_until


def causes(table: dict[str, Any], bounds_ms: dict[str, int]) -> list[tuple[str, str]]:
    said = json.dumps({"pipeline": "p", "tables": {"users": table}}).encode()
    with ScriptedEndpoint(answers(200, said)) as endpoint:
        watch = NodesWatch("p", [Asked("agent", f"127.0.0.1:{endpoint.port}")], bounds_ms)
        watch.start()
        wait_until(lambda: watch.shown()[0]["answers"], what="an answer")
        watch.stop()
        return [(cause.key, cause.text) for cause in of_statuses(watch.shown())]


HOUR_MS = 3_600_000


@pytest.mark.parametrize(
    ("age_ms", "bounds_ms", "keys"),
    [
        (0, {"users": HOUR_MS}, []),
        (2 * HOUR_MS, {"users": HOUR_MS}, ["freshness/users"]),
        # It is read at an interval: how old it may be is another matter.
        (2 * HOUR_MS, {}, []),
        (None, {"users": HOUR_MS}, []),
    ],
)
def test_a_table_that_is_behind_is_told(age_ms: int | None, bounds_ms: dict[str, int], keys: list[str]) -> None:
    # Now, not as the file is read: a run of all tests may take an hour.
    through = None if age_ms is None else time.time_ns() // 10**6 - age_ms
    found = causes({"ready": True, "complete_through": through}, bounds_ms)
    assert [key for key, _ in found] == keys
    if keys == ["freshness/users"]:
        assert "behind its topic, and may be 3,600.0 s" in found[0][1]


def test_of_a_table_that_is_not_ready_just_that_is_told() -> None:
    table = {"ready": False, "reason": "the topic is gone", "complete_through": 0}
    assert [key for key, _ in causes(table, {"users": 1})] == ["table/users"]


def test_a_program_of_another_pipeline_at_the_address_is_no_answer() -> None:
    said = json.dumps({"pipeline": "other", "tables": {}}).encode()
    with ScriptedEndpoint(answers(200, said)) as endpoint:
        watch = NodesWatch("p", [Asked("agent", f"127.0.0.1:{endpoint.port}")])
        watch.start()
        wait_until(lambda: watch.shown()[0]["why"] or watch.shown()[0]["answers"], what="an answer")
        watch.stop()
    assert not watch.shown()[0]["answers"]
    assert "of the pipeline 'other'" in watch.shown()[0]["why"]


@pytest.mark.parametrize(
    "said",
    [
        {"tables": {"users": "ready"}},
        {"tables": ["users"]},
        {"routes": {"acme": "held"}},
        {"routes": ["acme"]},
        {"routes": [{"name": "acme", "details": "open"}]},
    ],
)
def test_an_answer_of_another_form_is_none_and_stops_nothing(said: dict[str, Any]) -> None:
    """As another release might give it, or whoever has the address."""
    with ScriptedEndpoint(answers(200, json.dumps({"pipeline": "p", **said}).encode())) as endpoint:
        watch = NodesWatch("p", [Asked("agent", f"127.0.0.1:{endpoint.port}")], {"users": 1})
        watch.start()
        wait_until(lambda: watch.shown()[0]["why"] or watch.shown()[0]["answers"], what="an answer")
        watch.stop()
    assert [*of_statuses(watch.shown())] == []
    assert "another form" in watch.shown()[0]["why"]


def test_a_page_whose_answer_does_not_end_is_no_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    """A byte now and then: no read of the connection takes long."""
    monkeypatch.setattr(nodes, "_PATIENCE_S", 1.0)
    monkeypatch.setattr(nodes, "_EVERY_S", 0.01)
    said = json.dumps({"pipeline": "p", "routes": [{"name": "acme", "state": "held"}]}).encode()
    drips = sends_slowly([b"HTTP/1.1 200 OK\r\nx-more: ", *[b"x"] * 300], 0.1)
    with ScriptedEndpoint(answers(200, said), drips) as endpoint:
        watch = NodesWatch("p", [Asked("expel", f"127.0.0.1:{endpoint.port}")])
        watch.start()
        wait_until(lambda: watch.shown()[0]["answers"], what="an answer")
        wait_until(lambda: not watch.shown()[0]["answers"], deadline_s=10, what="that it counts no more")
        assert (watch.shown()[0]["why"], [*of_statuses(watch.shown())]) == ("its answer does not end", [])
        watch.stop()
