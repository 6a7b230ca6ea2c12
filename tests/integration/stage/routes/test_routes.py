"""Stages with routes, beside a plain model of what they promise, whoever evaluates their expressions."""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import Any

import pytest

from enrich.base.errors import ConfigError
from enrich.stage.plan.limits import Limits
from enrich.stage.plan.plan import StagePlan
from tests.support.seed import random_source, rounds, variants
from tests.support.stage.frames import VERSIONS, by_spark, origin_of, python_operators, source_of
from tests.support.stage.world import USERS, StageWorld

SCHEMA = (
    "user_id string, n bigint, device struct<id:string>, items array<struct<sku:string,price:decimal(9,2)>>, "
    "kind string"
)
LOOKUPS = [{"table": "users", "key": "user_id", "as": "user", "select": ["region", "plan"]}]
NORMALIZE = {"user_id": "lower(trim(user_id))", "added": "n + 1"}


def routes(world: StageWorld) -> list[dict[str, Any]]:
    def topic(name: str) -> str:
        return world.topic(f"all.{name}")

    return [
        {
            "name": "pro",
            "when": "user.plan = 'pro'",
            "select": "struct(user_id, device.id AS device, user.region AS region)",
            "topic": topic("pro"),
        },
        {"name": "whole", "when": "n > 3", "topic": topic("whole"), "headers": {"device": "device.id"}},
        {
            "name": "items",
            "explode": "items",
            "select": "struct(user_id, items.sku AS sku, items.price AS price)",
            "key": "items.sku",
            "topic": topic("items"),
        },
        {
            "name": "regional",
            "when": "kind = 'regional'",
            "select": "user_id",
            "key": ["user_id", "n"],
            "topic_of": f"concat('{topic('of-')}', coalesce(user.region, 'none'))",
            "topics": [topic("of-eu"), topic("of-none")],
        },
        {"name": "rest", "select": "struct(n)", "topic": topic("rest")},
    ]


@pytest.fixture(scope="module")
def world(cluster, tmp_path_factory):
    world = StageWorld(cluster, tmp_path_factory.mktemp("routes"))
    world.table("users", "plan string, region string", {**USERS, "far": {"plan": "pro", "region": "mars"}})
    for name, otherwise in {"all": "rest", "drop": "drop", "dlq": "dlq", "no-lookups": "drop"}.items():
        stage = world.stage(name, LOOKUPS, topics="all", normalize=NORMALIZE, otherwise=otherwise)
        section = world.document["stages"][stage]
        section["source"]["schema"] = SCHEMA
        del section["sink"]
        section["routes"] = routes(world) if name == "all" else routes(world)[:-1]
    section = world.document["stages"]["no-lookups"]
    section["lookups"] = []
    section["routes"] = [section["routes"][1], section["routes"][2]]
    yield world
    world.close()


@dataclass
class Made:
    """What the model makes of an event: records as topic, key, value, and headers of their own; or a reason."""

    records: list[tuple[str, bytes | None, Any, Mapping[str, bytes]]] = field(default_factory=list)
    dead: str | None = None


def model(number: int, event: Mapping[str, Any], name: str, prefix: str) -> Made:
    event = dict(event)
    user_id = event.get("user_id")
    user_id = None if user_id is None else user_id.strip(" ").lower()
    user = {**USERS, "far": {"plan": "pro", "region": "mars"}}.get(str(user_id)) if name != "no-lookups" else None
    plan, region = (user or {}).get("plan"), (user or {}).get("region")
    device = (event.get("device") or {}).get("id")
    key, made = b"k%d" % number, Made()
    taken = False
    whole = {**event, "user_id": user_id, "added": None if event.get("n") is None else event["n"] + 1}
    if name != "no-lookups":
        whole["user"] = None if user is None else {"region": region, "plan": plan}
    if plan == "pro":
        taken = True
        made.records.append(("pro", key, {"user_id": user_id, "device": device, "region": region}, {}))
    if (event.get("n") or 0) > 3:
        taken = True
        own = {} if device is None else {"device": device.encode()}
        made.records.append(("whole", key, whole, own))
    taken = True  # the route of items has no condition
    for item in event.get("items") or []:
        sku, price = (item or {}).get("sku"), (item or {}).get("price")
        value = {"user_id": user_id, "sku": sku, "price": price}
        made.records.append(("items", None if sku is None else sku.encode(), value, {}))
    if name != "no-lookups" and event.get("kind") == "regional":
        if user_id is None:
            made.dead = "route regional: its `select` has no value for the event"
        elif region not in ("eu", None):
            made.dead = made.dead or "route regional: its `topic_of` names none of its topics"
        of = None if event.get("n") is None else json.dumps([user_id, event["n"]], separators=(",", ":")).encode()
        made.records.append((f"of-{region or 'none'}", of, user_id, {}))
    assert taken
    return made if made.dead is None else Made(dead=made.dead)


def events(count: int) -> list[dict[str, Any]]:
    source = random_source("routes")

    def some(*values: Any) -> Any:
        return source.choice(values)

    made = []
    for _ in range(count):
        items = some(None, [], [{"sku": "a", "price": 1.25}, {"sku": None, "price": None}], [{"sku": "é"}] * 3)
        event = {
            "user_id": some(" Ann ", "bob", "BOB", "gone", "far", None, "nobody"),
            "n": some(None, 0, 3, 4, 2**40),
            "device": some(None, {"id": "d1"}, {"id": None}, {"id": "x", "more": [1, {"user_id": "inner"}]}),
            "items": items,
            "kind": some(None, "", "regional", "Regional"),
            "note": some("user_id", '"user_id":"x"', "\\", "ünï"),
        }
        made.append({name: value for name, value in event.items() if source.random() < 0.8})
    return made


def record_of(row: Any, prefix: str) -> tuple[str, bytes | None, Any, Mapping[str, bytes]]:
    headers = {each.key: bytes(each.value) for each in row.headers or []}
    topic, text = row.topic.removeprefix(prefix), bytes(row.value).decode()
    own = {name: value for name, value in headers.items() if name == "device"}
    value = text if topic.startswith("of-") else json.loads(text)
    return topic, None if row.key is None else bytes(row.key), value, own


@pytest.mark.parametrize("name", variants("all", "drop", "dlq", "no-lookups", take=2))
@pytest.mark.parametrize("who", ["workers", "spark"])
def test_each_event_makes_the_records_of_the_model_and_no_others(spark, world, name, who):
    given = events(rounds(300, 5_000))
    frame = source_of(spark, [json.dumps(each, ensure_ascii=False).encode() for each in given])
    with by_spark() if who == "spark" else nullcontext():
        plan = StagePlan(spark, world.pipeline, name, source=VERSIONS)
    assert (plan.joined_by == "workers") == (who == "workers"), plan.joined_by
    made = plan.records(frame)
    rows = made.collect()
    if who == "workers":
        assert python_operators(made) == [("ArrowEvalPython", len(given))]
    prefix = world.topic("all.")
    found: dict[bytes, list[Any]] = {}
    dead: dict[int, str] = {}
    for row in rows:
        headers = {each.key: bytes(each.value) for each in row.headers or []}
        if row.topic == prefix + "dlq":
            dead[int(headers["enrich.offset"])] = headers["enrich.reason"].decode()
            assert headers["enrich.route"] == b"regional"
        else:
            found.setdefault(headers["enrich.origin"], []).append(record_of(row, prefix))
    count: Counter[str] = Counter()
    for number, event in enumerate(given):
        wanted = model(number, event, name, prefix)
        assert dead.pop(number, None) == wanted.dead, event
        assert found.pop(origin_of(number), []) == wanted.records, event
        count[wanted.dead or "records" if wanted.records or wanted.dead else "nothing"] += 1
    assert not found
    assert not dead
    assert count["records"], "the test shows nothing"


@pytest.mark.parametrize("who", ["workers", "spark"])
def test_an_event_that_takes_no_route_is_left_out_or_goes_where_otherwise_says(spark, world, who):
    for otherwise, topic in (("drop", None), ("dlq", "dlq"), ("rest", "rest")):
        stage = world.stage(f"{otherwise}-{who}", LOOKUPS, topics="all", otherwise=otherwise)
        section = world.document["stages"][stage]
        del section["sink"]
        section["source"]["schema"] = SCHEMA
        section["routes"] = [routes(world)[0], routes(world)[-1]] if otherwise == "rest" else [routes(world)[0]]
        with by_spark() if who == "spark" else nullcontext():
            plan = StagePlan(spark, world.pipeline, stage, source=VERSIONS)
        frame = source_of(spark, [b'{"user_id":"bob"}', b'{"user_id":"ann","n":7}', b"no JSON"])
        found = {
            (row.topic.removeprefix(world.topic("all.")), bytes(row.value)) for row in plan.records(frame).collect()
        }
        taken = {("pro", b'{"user_id":"bob","device":null,"region":null}'), ("dlq", b"no JSON")}
        left = {"dlq": b'{"user_id":"ann","n":7}', "rest": b'{"n":7}'}
        assert found == taken | ({(topic, left[topic])} if topic else set())


def test_the_bytes_are_the_same_whoever_evaluates(spark, world):
    texts = [json.dumps(each, ensure_ascii=each.get("n") is None).encode() for each in events(rounds(300, 5_000))]
    made = []
    for block in (nullcontext(), by_spark()):
        with block:
            plan = StagePlan(spark, world.pipeline, "all", source=VERSIONS)
        rows = plan.records(source_of(spark, texts)).collect()
        made.append(Counter((row.topic, row.key, bytes(row.value), str(row.headers)) for row in rows))
    assert made[0] == made[1]


def test_all_but_the_normalized_values_pass_byte_for_byte(spark, world):
    text = b'{ "x":1.50 ,"user_id" : " Ann ","note":"\\u00e9","n":4, "device":{"user_id": "B"} }'
    rows = StagePlan(spark, world.pipeline, "all", source=VERSIONS).records(source_of(spark, [text])).collect()
    (whole,) = [bytes(row.value) for row in rows if row.topic.endswith(".whole")]
    assert whole == (
        b'{ "x":1.50 ,"user_id" : "ann","note":"\\u00e9","n":4, "device":{"user_id": "B"} ,"added":5,'
        b'"user":{"region":"eu","plan":"free"}}'
    )


def test_an_event_one_of_whose_records_is_too_large_is_a_dead_letter_and_makes_no_other(spark, world):
    large = json.dumps({"user_id": "bob", "n": 5, "note": "x" * 5_000}).encode()
    limits = Limits(outputs={world.topic("all.whole"): 4_000})
    rows = StagePlan(spark, world.pipeline, "all", limits, VERSIONS).records(source_of(spark, [large])).collect()
    ((topic, headers),) = [(row.topic, {each.key: bytes(each.value) for each in row.headers}) for row in rows]
    assert topic == world.topic("all.dlq")
    assert headers["enrich.reason"] == b"route whole: the record is too large for its topic"
    assert headers["enrich.route"] == b"whole"


WRONG: Sequence[tuple[dict[str, Any], str]] = (
    ({"when": "user.plan"}, "a condition is true or false"),
    ({"select": "n"}, "is of type bigint, and an object, a map, a list, text or bytes are needed"),
    ({"key": "device"}, "cannot be a key"),
    ({"explode": "n"}, "n is of type bigint, not a list"),
    ({"explode": "nothing"}, "there is no field nothing"),
    ({"headers": {"x": "n"}}, "is of type bigint, and text or bytes are needed"),
    ({"when": "user.nothing = 1"}, "Spark cannot read"),
)


@pytest.mark.parametrize(("change", "message"), WRONG)
def test_what_cannot_work_is_told_before_the_stage_starts(spark, world, change, message):
    stage = world.stage("wrong", LOOKUPS, topics="all")
    section = world.document["stages"][stage]
    del section["sink"]
    section["source"]["schema"] = SCHEMA
    section["routes"] = [{"name": "one", "topic": world.topic("all.pro"), **change}]
    with pytest.raises(ConfigError, match=message) as raised:
        StagePlan(spark, world.pipeline, stage, source=VERSIONS)
    assert (raised.value.where or "").startswith("stages.wrong.routes[0]")


@pytest.mark.parametrize(
    ("tombstones", "fate"), [("dlq", {"dlq"}), ("drop", set()), ("forward", {"whole", "of-eu", "of-none", "rest"})]
)
@pytest.mark.parametrize("who", ["workers", "spark"])
def test_a_tombstone_is_a_dead_letter_or_dropped_or_takes_all_routes_that_keep_its_key(
    spark, world, tombstones, fate, who
):
    stage = world.stage(f"tombs-{tombstones}-{who}", LOOKUPS, topics="all")
    section = world.document["stages"][stage]
    del section["sink"]
    section["source"] |= {"schema": SCHEMA, "tombstones": tombstones}
    section["routes"] = [{**each} for each in routes(world)]
    del section["routes"][3]["key"]
    section["routes"][0]["key"] = "user_id"
    texts = [None, b'{"user_id":"ann","n":7}', None, b"no JSON", None]
    with by_spark() if who == "spark" else nullcontext():
        plan = StagePlan(spark, world.pipeline, stage, source=VERSIONS)
    rows = plan.records(source_of(spark, texts)).collect()
    found = Counter((row.topic.removeprefix(world.topic("all.")), bytes(row.key)) for row in rows if not row.value)
    names = {"k0", "k2", "k4"}
    if tombstones == "dlq":
        assert {topic for topic, _ in found} == fate
        assert len(found) == len(names)
    else:
        assert found == Counter((topic, name.encode()) for topic in fate for name in names)
    origins = {number: origin_of(number) for number in (0, 2, 4)}
    told = {each.value for row in rows if not row.value for each in row.headers if each.key == "enrich.origin"}
    assert tombstones != "forward" or {bytes(each) for each in told} == {*origins.values()}
    others = Counter(row.topic.removeprefix(world.topic("all.")) for row in rows if row.value)
    assert others == {"whole": 1, "rest": 1, "dlq": 1}
