"""Avro by a registry: workers have their schemas from the agent, and nobody else of the host asks for them. Routes in
Avro have theirs from the driver."""

import datetime as dt
import hmac
import io
import json
import os
from collections import Counter
from decimal import Decimal
from urllib.parse import urlsplit

import fastavro
import pytest

from enrich.base.errors import BadRecord, ConfigError, Unreachable
from enrich.codecs.avro.schemas.registry import Registry, RegistryAccess
from enrich.dev import temporary_stack
from enrich.host.ipc.store_paths import paths_of
from enrich.host.reader.schemas import AgentSchemas
from enrich.host.reader.spawn import living_agent
from enrich.stage.plan.plan import StagePlan
from enrich.stage.run import job
from enrich.stage.run.start import RunOptions
from enrich.stage.steps.leaving.routes import MISFIT, NO_TOPIC
from tests.integration.codecs.test_registry import register
from tests.support.kafka.topics import Cluster
from tests.support.links.watched_link import WatchedLink
from tests.support.processes import kill
from tests.support.seed import variants
from tests.support.stage.frames import VERSIONS, by_spark, records, seen
from tests.support.stage.runs import Run, running
from tests.support.stage.world import StageWorld
from tests.support.waiting import wait_until

USER = {"type": "record", "name": "User", "fields": [{"name": "plan", "type": "string"}]}
PLAY = {"type": "record", "name": "Play", "fields": [{"name": "user_id", "type": ["null", "string"]}]}
EVENTS = "user_id string, n bigint, price decimal(9,2), at string, device struct<id:string>"
NEWER = {**PLAY, "fields": [*PLAY["fields"], {"name": "device", "type": "string", "default": "none"}]}


@pytest.fixture(scope="module")
def addresses():
    with temporary_stack(("registry",), quiet=True) as addresses:
        yield addresses


@pytest.fixture(scope="module")
def link(addresses):
    address = urlsplit(addresses.registry_url)
    with WatchedLink(address.hostname, address.port) as link:
        yield link


def record(**fields):
    return {"type": "record", "name": "Any", "fields": [{"name": name, "type": kind} for name, kind in fields.items()]}


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
    assert asked[str(older)] == asked[str(newer)] == 1, link.asked


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
    (told,) = [vars(record) for record in caplog.records if "registry cannot be used" in record.getMessage()]
    assert "the schema registry did not answer" in told["reason"] and "127.0.0.1:1" in told["reason"]


@pytest.mark.parametrize("profile", variants("latency", "realtime"))
def test_an_event_whose_schema_nobody_has_read_is_left_to_the_next_start(spark, world, addresses, profile):
    """A stage does not wait for the registry."""
    stage = world.stage("enrich", [], profile=profile)
    source = {"topic": world.topic("enrich.in"), "format": "avro", "schema": json.dumps(PLAY), "framing": "confluent"}
    world.document["stages"][stage]["source"] = source
    number, registry = register(addresses.registry_url, "waits", PLAY), world.document["kafka"]["registry"]
    url, registry["url"] = registry["url"], "http://127.0.0.1:1"
    world.send(stage, [framed(number, PLAY, {"user_id": "ann"})])
    error = Run(spark, world, stage).end()
    assert isinstance(error, Unreachable), error
    assert "the schema registry did not answer" in error.what
    world.close()
    registry["url"] = url
    with running(spark, world, stage):
        wait_until(lambda: world.output(stage), what="the event")
    assert world.output(stage) == [{"user_id": "ann"}]


def routed(world, name, *routes):
    """A stage over events in JSON with these routes."""
    stage = world.stage(name, [])
    section = world.document["stages"][stage]
    del section["sink"]
    section["source"]["schema"] = EVENTS
    section["routes"] = [{"format": "avro", **route} for route in routes]
    return stage


def made_of(spark, world, stage, *events):
    return records(spark, world, stage, [json.dumps(each).encode() for each in events]).collect()


def newest(url, topic):
    return Registry(RegistryAccess(url)).latest(f"{topic}-value")


def read(url, row):
    schema_id, schema = newest(url, row.topic)
    assert bytes(row.value[:5]) == b"\0" + schema_id.to_bytes(4, "big")
    return fastavro.schemaless_reader(io.BytesIO(row.value[5:]), fastavro.parse_schema(json.loads(schema)))


def test_a_route_in_avro_registers_the_schema_of_its_objects_and_keeps_to_it(spark, world, addresses):
    url, topic = addresses.registry_url, world.topic("avro.plays")
    select = (
        "struct(user_id, n, price, to_timestamp(at) AS at, device, array(n, n + 1) AS both, map('n', n) AS named, "
        "cast(n AS int) AS small)"
    )
    stage = routed(world, "routed", {"name": "plays", "select": select, "topic": topic})
    n = 2**31 - 1
    event = {
        "user_id": "ann", "n": n, "price": 1.25, "at": "2026-01-02T03:04:05.678901Z", "device": {"id": "d"},
    }  # fmt: skip
    (whole, empty) = made_of(spark, world, stage, event, {})
    at = dt.datetime(2026, 1, 2, 3, 4, 5, 678901, dt.UTC)
    assert read(url, whole) == {
        "user_id": "ann", "n": n, "price": Decimal("1.25"), "at": at, "device": {"id": "d"}, "both": [n, n + 1],
        "named": {"n": n}, "small": n,
    }  # fmt: skip
    assert read(url, empty) == {
        **dict.fromkeys(["user_id", "n", "price", "at", "device", "small"]), "both": [None, None], "named": {"n": None},
    }  # fmt: skip
    first = newest(url, topic)
    with by_spark():
        again = made_of(spark, world, stage, event, {})
    assert newest(url, topic) == first
    assert [bytes(row.value) for row in again] == [bytes(row.value) for row in (whole, empty)]


def test_each_topic_of_a_route_has_its_own_schema_and_what_does_not_fit_one_is_a_dead_letter(spark, world, addresses):
    url, topics = addresses.registry_url, [world.topic("avro.a"), world.topic("avro.b")]
    needed = {"type": "record", "name": "Needed", "fields": [{"name": "n", "type": "int"}]}
    more = {"type": "record", "name": "More", "fields": [
        {"name": "n", "type": ["null", "long"]}, {"name": "by", "type": "string", "default": "us"},
    ]}  # fmt: skip
    for topic, schema in zip(topics, (needed, more), strict=True):
        register(url, f"{topic}-value", schema)
    prefix = topics[0][:-1]
    route = {"name": "n", "select": "struct(n)", "topic_of": f"concat('{prefix}', user_id)", "topics": topics}
    stage = routed(world, "two", route)
    given = [{"user_id": "a", "n": 1}, {"user_id": "b", "n": 2**40}, {"user_id": "b"}, {"user_id": "a"},
             {"user_id": "a", "n": 2**31}, {"user_id": "c", "n": 1}]  # fmt: skip
    rows = made_of(spark, world, stage, *given)
    made = [(row.topic.removeprefix(prefix), read(url, row)) for row in rows if row.topic in topics]
    assert made == [("a", {"n": 1}), ("b", {"n": 2**40, "by": "us"}), ("b", {"n": None, "by": "us"})]
    headers = [
        {each.key: bytes(each.value).decode() for each in row.headers} for row in rows if row.topic not in topics
    ]
    reasons = [each["enrich.reason"].removeprefix("route n: ") for each in headers]
    assert sorted(reasons) == sorted([MISFIT, MISFIT, NO_TOPIC])
    assert {each["enrich.route"] for each in headers} == {"n"}


@pytest.mark.parametrize(
    ("select", "message"),
    [
        ("n", "is of type bigint, and a record in avro is an object"),
        ("struct(n AS other)", "the value has other, and the schema has only n"),
        ("struct(user_id AS n)", "n is of type string, and the schema has long"),
    ],
)
def test_objects_that_do_not_fit_the_schema_of_a_topic_are_told_at_the_start(spark, world, addresses, select, message):
    topic = world.topic("avro.wrong")
    register(addresses.registry_url, f"{topic}-value", {
        "type": "record", "name": "N", "fields": [{"name": "n", "type": "long"}],
    })  # fmt: skip
    stage = routed(world, "wrong", {"name": "n", "select": select, "topic": topic})
    with pytest.raises(ConfigError, match=message) as raised:
        StagePlan(spark, world.pipeline, stage, source=VERSIONS)
    assert raised.value.where == "stages.wrong.routes[0].select"


def test_a_type_that_avro_has_no_form_for_is_told_and_nothing_is_registered(spark, world, addresses):
    topic = world.topic("avro.none")
    stage = routed(world, "none", {"name": "n", "select": "struct(n AS `a b`)", "topic": topic})
    with pytest.raises(ConfigError, match="is no name in Avro"):
        StagePlan(spark, world.pipeline, stage, source=VERSIONS)
    with pytest.raises(ConfigError, match="is not in the schema registry"):
        newest(addresses.registry_url, topic)


@pytest.mark.parametrize("source", ["named", "pattern"])
def test_avro_of_different_topics_is_masked_by_the_columns_of_each_and_routed_by_topic(spark, world, addresses, source):
    url = addresses.registry_url
    stage = world.stage("mask", [])
    users, cards = world.topic("cdc.app.users"), world.topic("cdc.app.cards")
    section = world.document["stages"][stage]
    del section["sink"]
    section["source"] = {"format": "avro", "tombstones": "forward"} | (
        {"topics": [users, cards]} if source == "named" else {"topic_pattern": users.replace("users", "[a-z]+")}
    )
    section["routes"] = [
        {"name": name, "when": f"_kafka_topic = '{topic}'", "topic": world.topic(f"online.{name}")}
        for name, topic in (("users", users), ("cards", cards))
    ]
    world.document["masks"] = {
        "key": "a secret of the tests",
        "app.users": {"id": "show", "email": "hmac", "name": "redact"},
        "app.*": {"*_number": "partial", "owner": "hmac", "_key": "show"},
    }
    user = record(id="long", email="string", name=["null", "string"], note="string")
    card = record(id="string", card_number="string", owner="string")
    user_id = register(url, f"{users}-value", user)
    card_id = register(url, f"{cards}-value", card)
    email = "canary@x.org"
    events = [
        (users, framed(user_id, user, {"id": 7, "email": email, "name": "canary", "note": "canary"})),
        (cards, framed(card_id, card, {"id": "canary", "card_number": "canary-4111-1234", "owner": email})),
        (users, b"\0\0\0\0\1canary"),
        (cards, b"canary"),
        (users, None),
    ]
    rows = [(f"k{n}".encode(), value, topic, 0, n, None) for n, (topic, value) in enumerate(events)]
    schema = "key binary, value binary, topic string, partition int, offset bigint, "
    schema += "headers array<struct<key:string,value:binary>>"
    frame = spark.createDataFrame(rows, schema).selectExpr("*", "timestamp_millis(1000) AS timestamp")
    made = StagePlan(spark, world.pipeline, stage, source=VERSIONS).records(frame).collect()
    found = {(row.topic.rpartition(".")[2], bytes(row.key).decode(), bytes(row.value or b"").decode()) for row in made}
    assert not any("canary" in text for each in found for text in each)
    hashed = hmac.digest(b"a secret of the tests", email.encode(), "sha256").hex()
    letters = {key for topic, key, value in found if topic == "dlq" and value == "[masked]"}
    assert len(letters) == 2
    assert {each for each in found if each[0] != "dlq"} == {
        ("users", "k0", f'{{"id":7,"email":"{hashed}","name":"***"}}'),
        ("cards", "k1", f'{{"card_number":"****1234","owner":"{hashed}"}}'),
        ("users", "k4", ""),
        ("cards", "k4", ""),
    }
