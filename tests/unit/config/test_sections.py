"""The pipeline of DESIGN.md is accepted whole, and what is left out has the defaults that the reference names."""

from datetime import timedelta
from pathlib import Path

import pytest
from pydantic import ValidationError

from enrich.config import AvroSchema, Columns, from_wire, load, load_text, to_wire
from enrich.config.types.column_types import Decimal
from tests.unit.config.helpers import AVRO, HEAD, RECORD, changed, load_data, told

EXAMPLE = Path(__file__).parents[3] / "examples" / "plays.yaml"


def test_the_example_says_what_the_design_says() -> None:
    pipeline = load(EXAMPLE, {})
    users, limits, networks = pipeline.tables.values()
    assert pipeline.kafka.bootstrap_servers == "localhost:9092"
    assert pipeline.memory.budget == 2 * 2**30
    assert (users.topic, users.history, users.access) == ("users.v1", timedelta(hours=1), "mapped")
    assert users.columns.names == ("plan", "region", "limits")
    freshness = users.freshness
    assert (freshness.bound, freshness.on_stale) == (timedelta(seconds=5), "wait")
    assert (freshness.deadline, freshness.then) == (timedelta(seconds=30), "fail")
    assert limits.loader is not None and limits.loader.given == ("redis",)
    assert (limits.refresh, limits.expire) == (timedelta(minutes=2), timedelta(days=30))
    assert networks.key == "cidr"
    stage = pipeline.stages["enrich"]
    assert [(lookup.table, lookup.key, lookup.as_, lookup.on_miss) for lookup in stage.lookups] == [
        ("users", ("user_id",), "user", "dlq"),
        ("networks", ("ip",), "net", "null"),
    ]
    assert stage.source.fields == ("user_id", "ip", "ts")
    assert (stage.outputs, stage.dlq, stage.lineage) == (("plays.enriched",), "plays.dlq", True)
    assert stage.writeback is not None and stage.writeback.version == "ts"
    assert stage.checkpoint == str(Path("checkpoints/enrich").absolute())


def test_the_example_takes_its_servers_from_the_environment() -> None:
    values = {"KAFKA_BOOTSTRAP_SERVERS": "broker:1", "REDIS_URL": "redis://cache"}
    pipeline = load(EXAMPLE, values)
    assert pipeline.kafka.bootstrap_servers == "broker:1"


def test_defaults() -> None:
    pipeline = load_text(
        HEAD + "tables: {a: {topic: a, format: string}, b: {loader: {redis: redis://h}, format: bytes}}\n"
        "stages: {s: {source: {topic: s, format: string}, sink: {topic: t},"
        " lookups: [{table: a, key: value, as: a}]}}",
        {},
    )
    a, b = pipeline.tables["a"], pipeline.tables["b"]
    assert pipeline.state_dir == str(Path("state").absolute())
    assert (pipeline.memory.budget, pipeline.memory.max_readers) == (2 * 2**30, None)
    assert (a.key, a.compaction, a.access, a.history) == ("exact", "required", "auto", timedelta(0))
    assert (a.freshness.bound, a.freshness.on_stale) == (timedelta(seconds=5), "mark")
    assert (a.freshness.deadline, a.freshness.then) == (timedelta(minutes=5), "mark")
    assert (a.refresh, a.expire) == (None, None)
    assert (str(a.columns), str(b.columns)) == ("value string", "value binary")
    assert (b.refresh, b.expire) == (timedelta(minutes=2), timedelta(days=30))
    stage = pipeline.stages["s"]
    lookup = stage.lookups[0]
    assert (lookup.on_miss, lookup.default, lookup.select, lookup.as_of) == ("null", None, None, False)
    assert (stage.profile, stage.replay, stage.lineage, stage.dlq) == ("latency", "latest", False, None)
    assert stage.source.fields == ("value",)
    assert stage.checkpoint == str(Path("checkpoints/plays/s").absolute())


def test_paths_start_at_the_working_directory_and_uris_stay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", "/home/me")
    pipeline = load_data(changed(("state_dir", "~/state/../x"), ("stages.enrich.checkpoint", "hdfs://nn/a/../b")))
    assert pipeline.state_dir == "/home/me/x"
    assert pipeline.stages["enrich"].checkpoint == "hdfs://nn/a/../b"
    assert load_data(changed(("state_dir", "x"))).state_dir == str(tmp_path / "x")


def test_a_composite_key_is_a_list_of_expressions() -> None:
    pipeline = load_data(changed(("stages.enrich.lookups.0.key", ["user_id", "lower(ip)"])))
    assert pipeline.stages["enrich"].lookups[0].key == ("user_id", "lower(ip)")


@pytest.mark.parametrize("servers", ["a:1,b:2", "a:1 , b:2", ["a:1", "b:2"]])
def test_servers_are_a_list_or_text(servers: object) -> None:
    assert load_data(changed(("kafka.bootstrap_servers", servers))).kafka.bootstrap_servers == "a:1,b:2"


def test_the_name_of_a_bytes_column_can_be_chosen() -> None:
    pipeline = load_data(changed(("tables.networks.format", "bytes"), ("tables.networks.columns", "raw binary")))
    assert pipeline.tables["networks"].columns.names == ("raw",)


@pytest.mark.parametrize(
    ("more", "framing"),
    [
        ({"schema": AVRO}, "bare"),
        ({"schema": AVRO, "framing": "confluent"}, "confluent"),
        ({}, "confluent"),
    ],
)
def test_avro_is_framed_as_its_schema_comes(more: dict[str, str], framing: str) -> None:
    table = {"topic": "u", "format": "avro", "columns": "user_id string", **more}
    data = changed(("kafka.registry.url", "http://registry"), ("tables.more", table))
    assert load_data(data).tables["more"].framing == framing


def test_a_schema_file_is_read_into_schema(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "user.avsc").write_text(AVRO)
    monkeypatch.chdir(tmp_path)
    table = {"topic": "u", "format": "avro", "columns": "user_id string", "file": "user.avsc"}
    source = {"topic": "e", "format": "avro", "file": "${DIR}/user.avsc"}
    data = changed(("tables.more", table), ("stages.s", {"source": source, "sink": {"topic": "t"}}))
    pipeline = load_data(data, {"DIR": str(tmp_path)})
    more = pipeline.tables["more"]
    assert (more.schema_, more.file, more.framing) == (AvroSchema(AVRO), None, "bare")
    assert pipeline.stages["s"].source.fields == ("user_id",)


def test_a_schema_file_that_cannot_be_used_is_told_at_its_key(tmp_path: Path) -> None:
    missing, wrong, latin = tmp_path / "missing", tmp_path / "wrong", tmp_path / "latin"
    wrong.write_text("{}")
    latin.write_bytes(b'"\xe9"')
    table = {"topic": "u", "format": "avro", "columns": "user_id string"}
    for path, message in (
        (missing, f"cannot read {missing}: No such file or directory"),
        (tmp_path, f"cannot read {tmp_path}: Is a directory"),
        (latin, f"{latin} is not UTF-8 text"),
        (wrong, RECORD),
    ):
        found = told(changed(("tables.more", {**table, "file": str(path)})))
        assert found == [f"tables.more.file: {message}"]


def test_a_section_never_changes() -> None:
    pipeline = load(EXAMPLE, {})
    with pytest.raises(ValidationError):
        pipeline.name = "other"
    with pytest.raises(ValidationError):
        pipeline.tables["users"].topic = "other"


def test_a_column_list_is_an_object() -> None:
    columns = load_data(changed(("tables.users.columns", "a decimal(4,2)"), ("stages", {}))).tables["users"].columns
    assert isinstance(columns, Columns)
    assert columns.columns[0].type == Decimal(4, 2)


def test_another_process_gets_what_was_resolved_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    pipeline = load_data(
        changed(("stages.enrich.event_time", "lower('$${X}')"), ("state_dir", "${DIR}")), {"DIR": "here"}
    )
    text = to_wire(pipeline)
    monkeypatch.chdir("/")
    assert from_wire(text) == pipeline
    assert from_wire(text).state_dir == str(tmp_path / "here")
    assert from_wire(text).stages["enrich"].event_time == "lower('${X}')"
