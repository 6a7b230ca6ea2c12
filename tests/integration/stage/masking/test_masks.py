"""A masked value is in no byte that leaves a stage: searched for everywhere, with controls that find it."""

import json
import urllib.request
from collections.abc import Iterable
from typing import Any

import pytest

from enrich.dev.servers.ports import choose
from tests.support.seed import variants
from tests.support.stage.frames import by_spark, records
from tests.support.stage.world import StageWorld, running_stage

CANARIES = [b"canary-mail", b"canary-name", b"canary-note", b"canary-key", b"canary-head", b"canary-row", b"canary-odd"]
EVENTS: list[dict[str, Any]] = [
    {"id": 1, "user_id": "ann", "email": "canary-mail@x.org", "name": "canary-name", "note": "canary-note"},
    {"id": 2, "user_id": "bob", "email": "canary-mail@y.org", "name": "canary-name", "more": {"deep": ["canary-note"]}},
    {"id": 3, "user_id": "ann", "email": {"inner": "canary-mail"}, "name": ["canary-name"]},
]
ODD = [b'{"id": 4, "email": "canary-odd', b"canary-odd", b"\xff canary-odd"]
_SOURCE = {"id": "show", "user_id": "show", "email": "personal", "name": "redact"}
MASKS = {
    "key": "a secret of the tests",
    "tags": {"personal": "hmac"},
    "*.in": _SOURCE,
    "events": _SOURCE,
    "*.table.users": {"plan": "show", "region": "hmac"},
}


@pytest.fixture
def world(cluster, tmp_path):
    world = StageWorld(cluster, tmp_path)
    world.table("users", "plan string, region string, secret string", {
        "ann": {"plan": "free", "region": "canary-row", "secret": "canary-row"},
        "bob": {"plan": "pro", "region": None, "secret": "canary-row"},
    })  # fmt: skip
    yield world
    world.close()


def routed(world: StageWorld, *, has_masks: bool = True, **section: Any) -> str:
    lookup = {"table": "users", "key": "user_id", "as": "user"}
    stage = world.stage("masked", [lookup], lineage=True, **section)
    document = world.document["stages"][stage]
    document["source"]["schema"] = "id bigint, user_id string, email string, name string, note string"
    del document["sink"]
    document["routes"] = [
        {"name": "whole", "topic": world.topic("whole"), "headers": {"region": "user.region"}},
        {"name": "some", "select": "struct(id, email, name, note, user)", "topic": world.topic("some")},
        # Its value is too much for any record: these events are dead letters.
        {"name": "dead", "when": "user.plan = 'pro'", "select": "cast(null as string)", "topic": world.topic("dead")},
    ]
    if has_masks:
        world.document["masks"] = MASKS
    return stage


def canaries_in(texts: Iterable[bytes]) -> set[bytes]:
    return {canary for text in texts for canary in CANARIES if canary in text}


def bytes_of(rows: Iterable[Any]) -> Iterable[bytes]:
    for row in rows:
        yield row.topic.encode()
        yield bytes(row.key or b"")
        yield bytes(row.value or b"")
        for header in row.headers or []:
            yield header.key.encode() + b"=" + bytes(header.value or b"")


@pytest.mark.parametrize("who", variants("workers", "spark"))
def test_a_masked_value_is_in_no_record_of_a_stage(spark, world, who):
    stage = routed(world)
    encoded = [*(json.dumps(event).encode() for event in EVENTS), *ODD]
    if who == "spark":
        with by_spark():
            rows = records(spark, world, stage, encoded).collect()
    else:
        rows = records(spark, world, stage, encoded).collect()
    assert {row.topic.rpartition(".")[2] for row in rows} == {"whole", "some", "dlq"}
    assert canaries_in(bytes_of(rows)) == set()
    whole = [json.loads(bytes(row.value)) for row in rows if row.topic.endswith(".whole")]
    first = next(one for one in whole if one["id"] == 1)
    assert first.keys() == {"id", "user_id", "email", "name", "user", "_lineage"}
    assert first["name"] == "***"
    assert first["user"].keys() == {"plan", "region"}
    assert len(first["email"]) == len(first["user"]["region"]) == 64


def test_the_control_finds_every_canary_without_masks(spark, world):
    stage = routed(world, has_masks=False)
    encoded = [*(json.dumps(event).encode() for event in EVENTS), *ODD]
    rows = records(spark, world, stage, encoded).collect()
    # Keys and headers of these frames have none.
    assert canaries_in(bytes_of(rows)) == set(CANARIES) - {b"canary-key", b"canary-head"}


@pytest.mark.parametrize("has_masks", variants(True, False))
def test_a_masked_value_is_in_no_byte_that_the_program_leaves(world, has_masks):
    (port,) = choose(1, ())
    stage = routed(world, has_masks=has_masks, metrics_port=port)
    world.document["tallies"] = True
    tallies = f"{world.document['name']}.tallies"
    world.cluster.topics.create(tallies, partitions=1)
    messages = [json.dumps(event).encode() for event in EVENTS] + ODD
    source = world.topic(f"{stage}.in")
    for number, value in enumerate(messages):
        headers = [
            ("secret", b"canary-head"),
            ("enrich.key", b"canary-head"),
            ("enrich.origin", b"first/0/%d" % number),
        ]
        world.cluster.produce(source, [(b"canary-key-%d" % number, value)], headers=headers)
    with running_stage(world, stage) as running:
        dlq = world.topic(f"{stage}.dlq")
        running.wait_until(lambda: len(world.cluster.messages(dlq)) == len(ODD) + 1, what="the dead letters")
        some = world.topic("some")
        running.wait_until(lambda: len(world.cluster.messages(some)) == len(EVENTS) - 1, what="the events")
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
            metrics = answer.read()
        running.tell()
        assert running.end() == 0, running.told()
    outside = [metrics, running.told().encode()]
    outside += [each.read_bytes() for each in (world.folder / "checkpoints").rglob("*") if each.is_file()]
    topics = {topic: world.cluster.messages(topic) for topic in (some, world.topic("whole"), dlq, tallies)}
    written = [
        text
        for found in topics.values()
        for message in found
        for text in (message.key() or b"", message.value() or b"", repr(message.headers()).encode())
    ]
    assert topics[tallies]
    assert canaries_in(outside) == set()
    assert canaries_in(written) == (set() if has_masks else set(CANARIES))
    if has_masks:
        origins = {dict(message.headers())["enrich.origin"] for message in topics[some]}
        assert origins == {b"first/0/0", b"first/0/2"}
