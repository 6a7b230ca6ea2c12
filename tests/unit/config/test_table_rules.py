"""Every rule inside a table and its encoding: what it refuses, at which key, with which words, and nothing else."""

import pytest

from tests.unit.config.helpers import ABSENT, AVRO, Changes, Refused, changed, refused, told

ON_DEMAND = {"loader": {"http": "http://h/{key}"}, "on_demand": True, "columns": "a int"}

REFUSED: list[Refused] = [
    # tables
    ("a table needs a source", [("tables.users.topic", ABSENT)], "tables.users", "the table needs a topic or a loader"),
    (
        "a table has one source only",
        [("tables.limits.topic", "limits.v1")],
        "tables.limits",
        "the table has a topic and a loader: give one of them",
    ),
    (
        "refresh is for loaders",
        [("tables.users.refresh", "2m")],
        "tables.users.refresh",
        "only for tables with a loader",
    ),
    ("expire is for loaders", [("tables.users.expire", "2m")], "tables.users.expire", "only for tables with a loader"),
    *[
        (
            f"{key} is for topics",
            [(f"tables.limits.{key}", value)],
            f"tables.limits.{key}",
            "only for tables with a topic",
        )
        for key, value in (
            ("history", "1h"),
            ("access", "rocks"),
            ("compaction", "any"),
            ("freshness", {"bound": "1s"}),
        )
    ],
    ("refresh is not 0", [("tables.limits.refresh", 0)], "tables.limits.refresh", "must be more than 0"),
    (
        "rows do not expire before they are read again",
        [("tables.limits.expire", "1m")],
        "tables.limits.expire",
        "must be more than refresh (2m)",
    ),
    (
        "on demand needs http",
        [("tables.limits.on_demand", True)],
        "tables.limits.on_demand",
        "needs http, not redis",
    ),
    (
        "http needs on_demand",
        [("tables.limits", {"loader": {"http": "http://h/{key}"}, "columns": "a int"})],
        "tables.limits.loader",
        "needs on_demand: true, or a source of the sync service that reads all rows",
    ),
    (
        "a row by its key needs the key",
        [("tables.limits", {"loader": {"http": "http://{key}.h/a"}, "on_demand": True, "columns": "a int"})],
        "tables.limits.loader.http",
        "needs {key} once, in its path or its query: where the key of a row goes",
    ),
    (
        "demand is for tables on demand",
        [("tables.limits.demand", {"parallel": 3})],
        "tables.limits.demand",
        "only with on_demand: true",
    ),
    (
        "headers are for http",
        [("tables.limits.loader.headers", {"a": "b"})],
        "tables.limits.loader.headers",
        "only with http",
    ),
    (
        "of freshness tables on demand have the deadline",
        [("tables.limits", {**ON_DEMAND, "freshness": {"deadline": "1m", "bound": "1s"}})],
        "tables.limits.freshness.bound",
        "only for tables with a topic; rows on demand have refresh and expire",
    ),
    (
        "no networks on demand",
        [("tables.limits", {**ON_DEMAND, "key": "cidr"})],
        "tables.limits.key",
        "cidr needs the whole table: rows on demand are asked for by their key",
    ),
    (
        "one place of keys to preload",
        [("tables.limits", {**ON_DEMAND, "preload": {"file": "/keys", "topic": "keys"}})],
        "tables.limits.preload",
        "give one of file and topic",
    ),
    (
        "a loader has one source",
        [("tables.limits.loader", {"pattern": "*"})],
        "tables.limits.loader",
        "give one of redis, postgres, file or http",
    ),
    (
        "a loader has one source only",
        [("tables.limits.loader.file", "/rows.csv")],
        "tables.limits.loader",
        "give one of redis, postgres, file or http",
    ),
    (
        "pattern is for redis",
        [("tables.limits", {"loader": {"file": "/r.csv", "key": ["id"], "pattern": "*"}, "columns": "a int"})],
        "tables.limits.loader.pattern",
        "only with redis",
    ),
    (
        "key is for rows",
        [("tables.limits.loader.key", ["id"])],
        "tables.limits.loader.key",
        "only with postgres or file",
    ),
    (
        "postgres needs its table",
        [("tables.limits", {"loader": {"postgres": "postgresql://h/d", "key": ["id"]}, "columns": "a int"})],
        "tables.limits.loader.table",
        "needed with postgres",
    ),
    (
        "a file needs its key",
        [("tables.limits", {"loader": {"file": "/r.csv"}, "columns": "a int"})],
        "tables.limits.loader.key",
        "needed with file",
    ),
    (
        "a file's name says what is in it",
        [("tables.limits", {"loader": {"file": "/r.xml", "key": ["id"]}, "columns": "a int"})],
        "tables.limits.loader.file",
        "expected a name that ends with .csv, .json, .jsonl, .ndjson or .parquet",
    ),
    (
        "rows have no format",
        [("tables.limits", {"loader": {"file": "/r.csv", "key": ["id"]}, "format": "string"})],
        "tables.limits.format",
        "rows of file have no encoding of their own: leave format out",
    ),
    (
        "then is for wait",
        [("tables.users.freshness.then", "fail")],
        "tables.users.freshness.then",
        "only with on_stale: wait",
    ),
    (
        "no answer is newer than now",
        [("tables.users.freshness.bound", 0)],
        "tables.users.freshness.bound",
        "must be more than 0: no answer is newer than now",
    ),
    (
        "bytes are one binary column",
        [("tables.networks.format", "bytes")],
        "tables.networks.columns",
        "format bytes has one column, of type binary, such as value binary",
    ),
    # encodings
    (
        "framing is for avro",
        [("tables.users.framing", "bare")],
        "tables.users.framing",
        "only for format: avro",
    ),
    ("file is for avro", [("tables.users.file", "/s.avsc")], "tables.users.file", "only for format: avro"),
    (
        "avro needs a schema from somewhere",
        [("tables.users.format", "avro")],
        "tables.users.format",
        "avro needs schema, file, or a registry: set kafka.registry.url",
    ),
    (
        "a bare body does not name its schema",
        [
            ("kafka.registry.url", "http://r"),
            ("tables.users.format", "avro"),
            ("tables.users.framing", "bare"),
        ],
        "tables.users.framing",
        "bare needs schema or file: nothing in a bare body says which schema wrote it",
    ),
    (
        "one schema only",
        [("tables.users.format", "avro"), ("tables.users.schema", AVRO), ("tables.users.file", "/nowhere.avsc")],
        "tables.users.file",
        "give schema or file, not both",
    ),
    (
        "json events need a schema",
        [("stages.enrich.source.schema", ABSENT)],
        "stages.enrich.source.schema",
        'needed with format: json, for the fields that expressions use: "user_id string, ts timestamp"',
    ),
]


@pytest.mark.parametrize(("changes", "key", "message"), refused(REFUSED))
def test_refuses(changes: Changes, key: str, message: str) -> None:
    assert told(changed(*changes)) == [f"{key}: {message}"]
