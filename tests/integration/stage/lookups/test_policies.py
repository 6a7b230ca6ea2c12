"""Every combination of miss policies: exact against an oracle in plain Python, in one pass of one Python operator."""

import itertools
import json
from collections import Counter

import pytest

from enrich.base.errors import BadRecord
from enrich.stage.task.failures import from_report
from tests.support.seed import random_source, rounds, variants
from tests.support.stage.events import BAD_EVENTS, GOOD_SHAPES, random_event
from tests.support.stage.frames import VERSIONS, origin_of, python_operators, records, seen, written_back
from tests.support.stage.oracle import Rows, expected
from tests.support.stage.world import USERS, StageWorld

DEVICES: Rows = {"ann": {"os": "linux"}, "ünï": {"os": None}, "5": {"os": "five"}, "x" * 300: {"os": "long"}}
TABLES: dict[str, Rows] = {"users": USERS, "devices": DEVICES}
POLICIES = ("null", "default", "drop", "dlq")
WRITES_BACK = ("default", "dlq")
"""With such a first policy a stage writes back too."""


def lookups(first, second):
    return [
        {
            "table": "users",
            "key": "user_id",
            "as": "user",
            "select": ["region", "plan"],
            "on_miss": first,
            **({"default": {"plan": "none"}} if first == "default" else {}),
        },
        {
            "table": "devices",
            "key": "ip",
            "as": "device",
            "select": ["os"],
            "on_miss": second,
            **({"default": {}} if second == "default" else {}),
        },
    ]


@pytest.fixture(scope="module")
def world(cluster, tmp_path_factory):
    world = StageWorld(cluster, tmp_path_factory.mktemp("policies"))
    world.users()
    world.table("devices", "os string", DEVICES)
    for first, second in itertools.product(POLICIES, POLICIES):
        writeback = {"topic": world.topic("all.back"), "value": "struct(user_id, ip)"}
        section = writeback if first in WRITES_BACK else None
        world.stage(f"{first}-{second}", lookups(first, second), topics="all", writeback=section)
    world.stage("none", [], topics="all")
    world.stage("fail", lookups("null", "fail"), topics="all")
    world.stage("no-dlq", lookups("null", "null"), topics="all", dlq=False)
    world.stage("lineage", lookups("null", "drop"), topics="all", lineage=True)
    yield world
    world.close()


@pytest.fixture(scope="module")
def events():
    source = random_source("policies")
    keys = [*USERS, *DEVICES]
    return [*BAD_EVENTS, *GOOD_SHAPES, *(random_event(source, keys) for _ in range(rounds(100, 5_000)))]


def assert_written_back(rows, events, forwarded):
    """One record for each event that goes on, and only for those."""
    made = {int(bytes(row.key)[1:]): row for row in rows}
    assert len(made) == len(rows)
    assert set(made) == forwarded
    for number, row in made.items():
        event = json.loads(events[number])
        wanted = {name: event.get(name) for name in ("user_id", "ip")}
        texts = {name: str(value) if isinstance(value, int) else value for name, value in wanted.items()}
        assert json.loads(row.value) == texts
        headers = {header.key: bytes(header.value).decode() for header in row.headers}
        partition = number % 3
        generation = VERSIONS.generation - (number < VERSIONS.starts[partition])
        cause = f"{VERSIONS.topic_id}/{partition}/{number}"
        assert headers == {"enrich.version": str(generation * 2**40 + number), "enrich.cause": cause}


@pytest.mark.parametrize("policies", variants(*itertools.product(POLICIES, POLICIES), take=5), ids="-".join)
def test_every_combination_of_policies_is_exact_and_evaluates_each_event_once(spark, world, events, policies):
    frame = records(spark, world, "-".join(policies), events)
    back, others = written_back(frame.collect(), world.topic("all.back"))
    found = seen(others)
    assert python_operators(frame) == [("ArrowEvalPython", len(events))]
    forwarded = {number for number, (topic, _, _) in found.items() if topic == "out"}
    assert_written_back(back, events, forwarded if policies[0] in WRITES_BACK else set())
    fates: Counter[str] = Counter()
    for number, value in enumerate(events):
        wanted = expected(value, lookups(*policies), TABLES)
        fates[wanted.to] += 1
        topic, made, headers = found.pop(number, ("nowhere", b"", {}))
        assert topic == wanted.to, value
        if topic == "out":
            assert json.loads(made) == wanted.value
            assert made.startswith((value or b"").strip()[:-1].strip()), "the original bytes are not in the output"
            assert headers["enrich.origin"] == origin_of(number)
            assert ("trace" in headers) == (number % 2 == 0)
        elif topic == "dlq":
            assert made == (value or b"")
            assert headers["enrich.reason"].decode().startswith(wanted.reason or "?")
            assert headers.get("enrich.lookup", b"").decode() == (wanted.lookup or "")
            assert (headers["enrich.offset"], headers["enrich.key"]) == (str(number).encode(), f"k{number}".encode())
            assert ("trace" in headers) == (number % 2 == 0)
    assert not found
    assert fates["dlq"] >= len(BAD_EVENTS)
    assert fates["out"], "no event was forwarded: the test shows nothing"


def test_without_lookups_events_pass_unchanged(spark, world, events):
    frame = records(spark, world, "none", events)
    found = seen(frame.collect())
    assert all(made == (events[number] or b"") for number, (_, made, _) in found.items())
    assert sum(topic == "out" for topic, _, _ in found.values()) == len(events) - len(BAD_EVENTS)


def test_an_event_too_large_for_the_sink_goes_to_the_dlq_cut_with_its_length_and_digest(spark, world):
    large = json.dumps({"user_id": "ann", "text": "x" * 5_000}).encode()
    small = b'{"user_id":"ann"}'
    found = seen(records(spark, world, "null-null", [large, small], sink=4_000, dlq=4_000).collect())
    topic, made, headers = found[0]
    assert topic == "dlq"
    assert 0 < len(made) < 4_000
    assert large.startswith(made)
    assert len(made) + sum(len(name) + len(value) for name, value in headers.items()) < 4_000
    assert headers["enrich.reason"] == b"the enriched event is too large for the sink"
    assert headers["enrich.length"] == str(len(large)).encode()
    assert found[1][0] == "out"


def test_on_miss_fail_ends_the_stage_naming_table_and_key(spark, world):
    with pytest.raises(Exception) as raised:
        records(spark, world, "fail", [b'{"ip":"ann"}', b'{"ip":"no device"}']).collect()
    told = from_report(str(raised.value))
    assert isinstance(told, BadRecord)
    assert "table devices" in told.what
    assert "no device" in str(told.where)


def test_a_stage_without_dlq_ends_at_an_event_that_it_cannot_process_and_names_it(spark, world):
    with pytest.raises(Exception) as raised:
        records(spark, world, "no-dlq", [b"{}", b"garbage"]).collect()
    told = from_report(str(raised.value))
    assert isinstance(told, BadRecord)
    assert "events/1/1" in str(told.where)


def test_lineage_says_which_version_was_joined(spark, world):
    rows = records(spark, world, "lineage", [b'{"user_id":"gone","ip":"ann"}', b'{"ip":"5"}']).collect()
    gone, null = (json.loads(made)["_lineage"]["user"] for _, made, _ in seen(rows).values())
    versions = world.cluster.messages(world.topic("table.users"))
    (tombstone,) = (message for message in versions if message.key() == b"gone")
    assert gone == {
        "table": "users",
        "partition": tombstone.partition(),
        "offset": tombstone.offset(),
        "timestamp": tombstone.timestamp()[1],
        "status": "deleted",
    }
    assert null == {"table": "users", "partition": None, "offset": None, "timestamp": None, "status": "null_key"}
