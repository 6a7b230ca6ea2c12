"""What replay: deterministic refuses, since a repeated batch could get other answers."""

import pytest

from tests.unit.config.helpers import LOOKUP, Changes, changed, told

DETERMINISTIC: Changes = [("stages.enrich.replay", "deterministic")]

NOT_REPLAYABLE: list[tuple[str, Changes, str]] = [
    (
        "short history",
        [("tables.users.history", "9m")],
        "it has a history of 9m, and a repeated batch may need 10m",
    ),
    (
        "on_stale: mark",
        [("tables.users.freshness.on_stale", "mark")],
        "it has on_stale: mark, and a repeat would mark other rows (use wait or fail)",
    ),
    (
        "then: mark",
        [("tables.users.freshness", {"on_stale": "wait", "then": "mark"})],
        "it has on_stale: wait with then: mark, and a repeat would mark other rows",
    ),
]


@pytest.mark.parametrize(("changes", "why"), [pytest.param(*rest, id=name) for name, *rest in NOT_REPLAYABLE])
def test_deterministic_replay_refuses_a_table_with(changes: Changes, why: str) -> None:
    found = told(changed(*DETERMINISTIC, *changes))
    assert found == [f"stages.enrich.replay: replay: deterministic cannot use the table users: {why}"]


def test_deterministic_replay_refuses_loader_tables_and_waiting() -> None:
    lookup = {"table": "limits", "key": "ip", "as": "limits"}
    found = told(changed(("stages.enrich.replay", "deterministic"), ("stages.enrich.lookups.1", lookup)))
    assert [problem.split(";")[0] for problem in found] == [
        "stages.enrich.replay: replay: deterministic cannot use the table limits: "
        "it has a loader, whose rows have no offsets to return to",
    ]
    found = told(changed(*DETERMINISTIC, (f"{LOOKUP}.on_miss", "wait")))
    assert found == [
        "stages.enrich.lookups[0].on_miss: wait is refused with replay: deterministic: "
        "a repeat could wait for other versions"
    ]


def test_deterministic_replay_goes_with_both_profiles_and_with_freshness_left_out() -> None:
    for profile in ("latency", "throughput"):
        assert told(changed(*DETERMINISTIC, ("stages.enrich.profile", profile), ("tables.users.freshness", {}))) == []
