"""One run tells every problem, and only problems: nothing of what is good, and no consequence of another one."""

import pytest

from tests.unit.config.helpers import ABSENT, GOOD, LOOKUP, Changes, changed, told

ACCEPTED: list[tuple[str, Changes]] = [
    ("the good pipeline itself", []),
    ("no lookups", [("stages.enrich.lookups", [])]),
    ("no stages and no tables", [("stages", {}), ("tables", {})]),
    ("expressions that are no plain field are Spark's", [(f"{LOOKUP}.key", "lower(nothing)")]),
    ("words that are values", [("stages.enrich.event_time", "Current_Timestamp")]),
    ("Spark ignores the case of fields", [(f"{LOOKUP}.key", "USER_ID")]),
    ("fields of a registry's schema are not known here", [
        ("kafka.registry.url", "http://r"),
        ("stages.enrich.source", {"topic": "a", "format": "avro"}),
    ]),
    ("the event's own key needs no version", [("stages.enrich.writeback", {"topic": "seen", "value": "struct(ts)"})]),
    ("a chain of stages", [(
        "stages.next", {"source": {"topic": "plays.enriched", "format": "string"}, "sink": {"topic": "last"}},
    )]),
    ("a write-back into a table", [("stages.enrich.writeback", {"topic": "users.v1", "value": "struct(ts)"})]),
    ("state_dir's neighbour for a checkpoint", [("state_dir", "/data"), ("stages.enrich.checkpoint", "/database")]),
    ("another file system's checkpoint", [("state_dir", "/data"), ("stages.enrich.checkpoint", "s3a://data/c")]),
    ("defaults of all types", [
        ("tables.users.columns", "a int, b double, c decimal(4,2), d date, e timestamp, f array<int>,"
         " g map<string,int>, h struct<x:boolean>, i binary"),
        (f"{LOOKUP}.select", ABSENT),
        (f"{LOOKUP}.on_miss", "default"),
        (f"{LOOKUP}.default", {
            "a": "5", "b": 1, "c": 1.25, "d": "2026-01-31", "e": "2026-01-31T12:00:00+02:00", "f": [1, None],
            "g": {"x": 1}, "h": {"x": True}, "i": "raw",
        }),
    ]),
    ("a deterministic stage over a pinned table", [
        ("stages.enrich.replay", "deterministic"), ("stages.enrich.profile", "throughput"),
    ]),
    ("a file loader without a format", [
        ("tables.limits", {"loader": {"file": "rows.csv", "key": ["id"]}, "columns": "rps int"}),
    ]),
]  # fmt: skip


@pytest.mark.parametrize("changes", [pytest.param(changes, id=name) for name, changes in ACCEPTED])
def test_accepts(changes: Changes) -> None:
    assert told(changed(*changes)) == []


@pytest.mark.parametrize(
    ("changes", "keys"),
    [
        pytest.param([("tables.users", 5)], ["tables.users"], id="a table that is none is still a table that exists"),
        pytest.param(
            [("tables.users.colums", "x int")], ["tables.users.colums"], id="a misspelt key has the right one's say"
        ),
        pytest.param(
            [("tables.users.history", "5x"), (f"{LOOKUP}.as_of", True)], ["tables.users.history"], id="a wrong history"
        ),
        pytest.param(
            [("stages.enrich.source.schema", "user strng")], ["stages.enrich.source.schema"], id="a wrong schema"
        ),
        pytest.param(
            [("stages.enrich.dqls", "x"), ("stages.enrich.dlq", ABSENT), (f"{LOOKUP}.on_miss", "dlq")],
            ["stages.enrich.dqls"],
            id="a misspelt dlq",
        ),
        pytest.param(
            [("tabels", GOOD["tables"]), ("tables", ABSENT)], ["tabels"], id="all tables under a misspelt key"
        ),
    ],
)
def test_consequences_of_a_problem_are_not_problems(changes: Changes, keys: list[str]) -> None:
    assert [problem.split(":")[0] for problem in told(changed(*changes))] == keys


def test_a_refused_field_hides_no_other_problem() -> None:
    found = told(
        changed(
            ("name", "no name"),
            ("kafka", "localhost"),
            ("tables.networks.format", "jsn"),
            ("stages.enrich.sink", []),
            (f"{LOOKUP}.key", "userid"),
            (f"{LOOKUP}.on_miss", "dql"),
            ("stages.enrich.dlq", "users.v1"),
        )
    )
    assert [problem.split(":")[0] for problem in found] == [
        "name",
        "kafka",
        "tables.networks.format",
        "stages.enrich.lookups[0].key",
        "stages.enrich.lookups[0].on_miss",
        "stages.enrich.sink",
        "stages.enrich.dlq",
    ]
