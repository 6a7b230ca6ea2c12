"""Avro by a registry: workers have their schemas from the agent, and nobody else of the host asks for them."""

import io
import json
import os
from collections import Counter
from urllib.parse import urlsplit

import fastavro
import pytest

from enrich.base.errors import BadRecord, ConfigError, Unreachable
from enrich.dev import temporary_stack
from enrich.host.ipc.store_paths import paths_of
from enrich.host.reader.schemas import AgentSchemas
from enrich.host.reader.spawn import living_agent
from enrich.stage.run import job
from enrich.stage.run.stage_run import RunOptions
from tests.integration.codecs.test_registry import register
from tests.support.processes import kill
from tests.support.stage_frames import records, seen
from tests.support.stages import StageWorld
from tests.support.topics import Cluster
from tests.support.watched_link import watched_link

USER = {"type": "record", "name": "User", "fields": [{"name": "plan", "type": "string"}]}
PLAY = {"type": "record", "name": "Play", "fields": [{"name": "user_id", "type": ["null", "string"]}]}
NEWER = {**PLAY, "fields": [*PLAY["fields"], {"name": "device", "type": "string", "default": "none"}]}


@pytest.fixture(scope="module")
def addresses():
    with temporary_stack(("registry",), quiet=True) as addresses:
        yield addresses


@pytest.fixture(scope="module")
def link(addresses):
    address = urlsplit(addresses.registry_url)
    with watched_link(address.hostname, address.port) as link:
        yield link


def framed(schema_id, schema, row):
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(schema), row)
    return b"\0" + schema_id.to_bytes(4, "big") + out.getvalue()


@pytest.fixture
def world(addresses, link, tmp_path):
    world = StageWorld(Cluster({"bootstrap.servers": addresses.bootstrap_servers}), tmp_path)
    address = urlsplit(addresses.registry_url)
    world.document["kafka"]["registry"] = {"url": f"http://127.0.0.1:{link.port}{address.path}"}
    yield world
    world.close()


def users_in_avro(world, url):
    topic = world.topic("table.users", cleanup_policy="compact")
    schema_id = register(url, f"{topic}-value", USER)
    world.cluster.produce(topic, [(b"ann", framed(schema_id, USER, {"plan": "free"}))])
    section = {"topic": topic, "format": "avro", "columns": "plan string", "access": "rocks"}
    world.document["tables"]["users"] = section


def test_events_and_rows_by_a_registry_that_only_the_agent_asks(spark, world, addresses, link):
    url = addresses.registry_url
    users_in_avro(world, url)
    stage = world.stage("enrich", [{"table": "users", "key": "user_id", "as": "user"}])
    source = world.document["stages"][stage]["source"] = {"topic": world.topic("enrich.in"), "format": "avro"}
    older = register(url, f"{source['topic']}-value", PLAY)
    newer = register(url, f"{source['topic']}-value", NEWER)
    events = [
        framed(newer, NEWER, {"user_id": "ann", "device": "tv"}),
        framed(older, PLAY, {"user_id": "ann"}),
        framed(older, PLAY, {"user_id": None}),
        framed(987_654, PLAY, {"user_id": "ann"}),
        framed(older, PLAY, {"user_id": "ann"}) + b"more",
        b"no avro",
        b"",
        None,
    ]
    for _ in range(2):
        found = sorted(seen(records(spark, world, stage, events * 5).collect()).items())
        made = [json.loads(value) if topic == "out" else topic for _, (topic, value, _) in found]
        assert made == 5 * [
            {"user_id": "ann", "device": "tv", "user": {"plan": "free"}},
            {"user_id": "ann", "device": "none", "user": {"plan": "free"}},
            {"user_id": None, "device": "none", "user": None},
            *["dlq"] * 5,
        ]
        reasons = [headers["enrich.reason"].decode() for _, (topic, _, headers) in found if topic == "dlq"]
        assert reasons[0] == "the event is not an Avro body of a schema in the registry"
    others = {(pid, command) for pid, command, _ in link.asked if pid != os.getpid() and "enrich.host" not in command}
    assert not others, "somebody else than the driver and the agent asked the registry"
    asked = Counter(line.split()[1].rpartition("/")[2] for _, command, line in link.asked if "enrich.host" in command)
    assert asked[str(older)] == asked[str(newer)] == 1


def test_topics_with_schemas_of_their_own_are_read_as_one(spark, world, addresses):
    users_in_avro(world, addresses.registry_url)
    stage = world.stage("enrich", [{"table": "users", "key": "user_id", "as": "user"}])
    topics = [world.topic("plays"), world.topic("ads")]
    world.document["stages"][stage]["source"] = {"topics": topics, "format": "avro"}
    ad = {"type": "record", "name": "Ad", "fields": [*PLAY["fields"], {"name": "price", "type": "int"}]}
    ids = [
        register(addresses.registry_url, f"{topic}-value", each) for topic, each in zip(topics, (PLAY, ad), strict=True)
    ]
    events = [framed(ids[0], PLAY, {"user_id": "ann"}), framed(ids[1], ad, {"user_id": "ann", "price": 5})]
    made = [json.loads(row.value) for row in records(spark, world, stage, events).collect()]
    assert sorted(made, key=str) == [
        {"user_id": "ann", "price": 5, "user": {"plan": "free"}},
        {"user_id": "ann", "price": None, "user": {"plan": "free"}},
    ]
    register(addresses.registry_url, f"{topics[1]}-value", {**ad, "fields": [{"name": "user_id", "type": "bytes"}]})
    with pytest.raises(ConfigError, match="user_id has different types"):
        records(spark, world, stage, events)


def test_schemas_survive_the_agent_and_errors_arrive_as_they_were(world, addresses):
    known = register(addresses.registry_url, "any", PLAY)
    users_in_avro(world, addresses.registry_url)
    schemas = AgentSchemas(world.pipeline, holder=os.getpid)
    assert json.loads(schemas.get(known)) == PLAY
    with pytest.raises(BadRecord, match="schema id 987654 is not in the schema registry"):
        schemas.get(987_654)
    header = living_agent(paths_of(world.pipeline))
    assert header is not None
    kill(header.pid)
    assert json.loads(schemas.get(known)) == PLAY
    world.close()
    world.document["kafka"]["registry"]["url"] = "http://127.0.0.1:1"
    with pytest.raises(Unreachable, match="the schema registry did not answer"):
        AgentSchemas(world.pipeline, holder=os.getpid).get(known)


def test_a_topic_without_a_schema_is_told_at_the_start(spark, world):
    stage = world.stage("enrich", [])
    world.document["stages"][stage]["source"] = {"topic": world.topic("enrich.in"), "format": "avro"}
    with pytest.raises(ConfigError, match=r"enrich\.in-value"):
        records(spark, world, stage, [])


def test_a_registry_that_is_away_is_told_before_spark_starts(world, monkeypatch, caplog):
    stage = world.stage("enrich", [])
    world.document["stages"][stage]["source"] = {"topic": world.topic("enrich.in"), "format": "avro"}
    world.document["kafka"]["registry"]["url"] = "http://127.0.0.1:1"

    def started(*_, **__):
        raise InterruptedError

    monkeypatch.setattr(job, "stage_session", started)
    with pytest.raises(InterruptedError):
        job.run_stage(world.pipeline, stage, RunOptions())
    (told,) = [vars(record) for record in caplog.records if "wait for the registry" in record.getMessage()]
    assert "the schema registry did not answer" in told["reason"] and "127.0.0.1:1" in told["reason"]
