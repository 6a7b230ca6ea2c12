"""What pages of programs say, and which alarms follow from it."""

import json
import time
from typing import Any

import pytest

from observe_service.alarms.causes import of_statuses
from observe_service.watching.nodes import Asked, NodesWatch
from tests.support.scripted_endpoint import ScriptedEndpoint, answers
from tests.support.waiting import wait_until


def causes(table: dict[str, Any], bounds_ms: dict[str, int]) -> list[tuple[str, str]]:
    said = json.dumps({"pipeline": "p", "tables": {"users": table}}).encode()
    with ScriptedEndpoint(answers(200, said)) as endpoint:
        watch = NodesWatch([Asked("agent", f"127.0.0.1:{endpoint.port}")], bounds_ms)
        watch.start()
        wait_until(lambda: watch.shown()[0]["answers"], what="an answer")
        watch.stop()
        return [(cause.key, cause.text) for cause in of_statuses(watch.shown())]


NOW_MS = time.time_ns() // 10**6
HOUR_MS = 3_600_000


@pytest.mark.parametrize(
    ("table", "bounds_ms", "keys"),
    [
        ({"ready": True, "complete_through": NOW_MS}, {"users": HOUR_MS}, []),
        ({"ready": True, "complete_through": NOW_MS - 2 * HOUR_MS}, {"users": HOUR_MS}, ["freshness/users"]),
        # It is read at an interval: how old it may be is another matter.
        ({"ready": True, "complete_through": NOW_MS - 2 * HOUR_MS}, {}, []),
        ({"ready": True, "complete_through": None}, {"users": HOUR_MS}, []),
        ({"ready": False, "reason": "the topic is gone", "complete_through": 0}, {"users": 1}, ["table/users"]),
    ],
)
def test_a_table_that_is_behind_is_told(table: dict[str, Any], bounds_ms: dict[str, int], keys: list[str]) -> None:
    found = causes(table, bounds_ms)
    assert [key for key, _ in found] == keys
    if keys == ["freshness/users"]:
        assert "behind its topic, and may be 3,600.0 s" in found[0][1]
