"""What must fit together inside a source."""

from typing import Any

import pytest

from enrich.config import FileType, load_text
from tests.unit.config.helpers import HEAD, changed, load_data, told

POSTGRES = {"postgres": {"dsn": "postgresql://me:secret@h/d", "table": "users", "key": ["id"]}}
HTTP = {"url": "https://h/x", "key": ["id"], "columns": "id bigint"}
REDIS = {"url": "redis://h", "pattern": "limit:*"}
FILE = {"file": {"path": "/data/users.csv", "key": ["id"]}}


def a_source(**changes: Any) -> dict[str, Any]:
    return {"topic": "users.v1", "format": "json", "from": POSTGRES, **changes}


def problems(**changes: Any) -> list[str]:
    return [
        line.removeprefix("sync.sources.s.") for line in told(changed(("sync.sources", {"s": a_source(**changes)})))
    ]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"format": "bytes"}, "format: a source writes json or avro, not bytes"),
        ({"interval": "0"}, "interval: must be more than 0"),
        ({"from": {}}, "from: give postgres, file, http or redis, one of them"),
        ({"from": {**POSTGRES, **FILE}}, "from: give postgres, file, http or redis, one of them"),
        (
            {"from": {"http": {**HTTP, "key": ["ID"]}}},
            "from.http.key: there is no column ID; did you mean id?",
        ),
        (
            {"from": {"http": {**HTTP, "parameter": "p"}}},
            "from.http.parameter: only with next: page, offset or a JSON pointer",
        ),
        ({"from": {"http": {**HTTP, "timeout": "1h"}}}, "from.http.timeout: must be from 100ms to 10m"),
        (
            {"from": {"http": {**HTTP, "url": "https://me:secret@h/x"}}},
            "from.http.url: must not name a user: write `token`, or Authorization under `headers`",
        ),
        ({"from": {"redis": REDIS}}, 'from.redis.columns: hash needs columns: "id bigint, name string"'),
        (
            {"from": {"redis": {**REDIS, "as": "string", "columns": "a int"}}},
            "from.redis.columns: a string has one column, `value`: leave columns out",
        ),
        ({"delete_guard": 1.5}, "delete_guard: expected a share from 0 to 1, such as 0.2, got the number 1.5"),
        ({"delete_guard": "20%"}, "delete_guard: expected a share from 0 to 1, such as 0.2, got 20%"),
        (
            {"from": {"postgres": {**POSTGRES["postgres"], "overlap": "5m"}}},
            "from.postgres.overlap: only with a cursor",
        ),
        (
            {"from": {"file": {"path": "/data/users", "key": ["id"]}}},
            "from.file.type: the path does not say which type of file it is: csv, json or parquet",
        ),
        (
            {"from": {"file": {"path": "/data/users.jsonl", "key": ["id"]}}},
            'from.file.columns: a json file needs columns: "id bigint, name string"',
        ),
        (
            {"from": {"file": {"path": "/u.csv", "key": ["ID"], "columns": "id bigint"}}},
            "from.file.key: there is no column ID; did you mean id?",
        ),
        (
            {"format": "avro", "schema": '{"type":"record","name":"r","fields":[]}', "framing": "confluent"},
            "framing: with a registry the schema is the one that it has for <topic>-value: leave schema and file out",
        ),
    ],
)
def test_what_does_not_fit_is_told_at_its_key(changes: dict[str, Any], message: str) -> None:
    assert problems(**changes) == [message]


def test_two_sources_of_one_topic_would_delete_each_others_rows() -> None:
    found = told(changed(("sync.sources", {"a": a_source(), "b": a_source()})))
    assert found == [
        "sync.sources.b.topic: users.v1 is also the topic of the source a: each would delete the other's rows"
    ]


def test_two_sources_of_one_slot_would_take_the_log_from_each_other() -> None:
    followed = {"postgres": {**POSTGRES["postgres"], "follow": "log"}}
    elsewhere = {"postgres": {**followed["postgres"], "dsn": "postgresql://me:secret@other/d"}}
    ways = {"acme-eu": followed, "acme_eu": followed, "acme_EU": elsewhere}
    sources = {name: a_source(topic=name, **{"from": origin}) for name, origin in ways.items()}
    assert told(changed(("sync.sources", sources))) == [
        "sync.sources.acme_eu.from.postgres.slot: enrich_plays_acme_eu is also the slot of the source acme-eu: each "
        "would take the log away from the other"
    ]


@pytest.mark.parametrize(
    ("path", "kind"), [("/a.csv.gz", "csv"), ("s3://b/A.Parquet", "parquet"), ("/a.ndjson", "json"), ("/a.b", None)]
)
def test_a_files_type_is_what_its_path_ends_with(path: str, kind: str | None) -> None:
    extra = {"columns": "id bigint"} if kind == "json" else {}
    given = {"type": "csv"} if kind is None else {}
    data = changed(
        ("sync.sources", {"s": a_source(**{"from": {"file": {"path": path, "key": ["id"], **extra, **given}}})})
    )
    pipeline = load_data(data)
    assert pipeline.sync is not None
    file = pipeline.sync.sources["s"].from_.file
    assert file is not None and file.kind == FileType(kind or "csv") and file.path == path


def test_a_share_may_come_from_the_environment_and_a_password_is_never_shown() -> None:
    text = (
        HEAD + "sync: {sources: {s: {topic: t, format: json, delete_guard: '${GUARD}', "
        "from: {postgres: {dsn: 'postgresql://me:secret@h/d', table: t, key: [id]}}}}}"
    )
    pipeline = load_text(text, {"GUARD": "0.5"})
    assert pipeline.sync is not None and pipeline.sync.sources["s"].delete_guard == 0.5
    assert "secret" not in pipeline.model_dump_json()
