"""Joins in time, keys of several parts, networks, freshness and waiting, against tables that change meanwhile."""

import json
import threading
import time
from datetime import UTC, datetime
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from enrich.base.errors import Unreachable
from enrich.stage.plan.plan import StagePlan
from enrich.stage.task.failures import ReportedFailure, from_report
from enrich.stage.worker.answers import Questions
from enrich.stage.worker.task import TaskAnswers
from tests.support.stage.frames import records, seen
from tests.support.stage.world import StageWorld
from tests.support.waiting import wait_until

USER = {"table": "users", "key": "user_id", "as": "user"}
NETWORKS = {
    "10.0.0.0/8": {"country": "private"},
    "10.1.0.0/16": {"country": "inner"},
    "2001:db8::/32": {"country": "doc"},
}


@pytest.fixture(scope="module")
def world(cluster, tmp_path_factory):
    world = StageWorld(cluster, tmp_path_factory.mktemp("time"))
    freshness = {"bound": "2s", "deadline": "10s"}
    world.table("users", "plan string, region string", {"ann": {"plan": "free"}}, history="1h", freshness=freshness)
    world.table("pairs", "n int", {'["a\\"b",7]': {"n": 1}, '["x",8]': {"n": 2}})
    world.table("networks", "country string", NETWORKS, key="cidr")
    strict = {"bound": "2s", "on_stale": "wait", "deadline": "2s", "then": "fail"}
    world.table("strict", "plan string", {"ann": {"plan": "free"}}, freshness=strict)
    world.stage("as-of", [{**USER, "as_of": True}], topics="all", event_time="ts", lineage=True)
    own_time = "bigint(substr(user_id, 5))"  # a bigint is milliseconds, as for ingest
    world.stage("time-of-key", [{**USER, "as_of": True}], topics="all", event_time=own_time, lineage=True)
    later = {**USER, "key": "string(timestamp_millis(bigint(ip)) + interval 1 day)", "as": "later"}
    both: list[dict[str, Any]] = [
        {**USER, "as_of": True},
        later,
        {**USER, "key": ["user_id", "element_at(array(ip), int(ip))"], "as": "pair"},
    ]
    failing = "timestamp_millis(bigint(ip))"
    world.stage("failing", both, topics="all", event_time=failing, lineage=True)
    world.stage("wait", [{**USER, "on_miss": "wait", "then": "dlq"}], topics="all", event_time="ts")
    pair = {"table": "pairs", "key": ["user_id", "CAST(ip AS INT)"], "as": "pair"}
    world.stage("pairs", [pair, {**pair, "key": ["ip", "7"], "as": "other"}], topics="all", lineage=True)
    world.stage("networks", [{"table": "networks", "key": "ip", "as": "net"}], topics="all", lineage=True)
    world.stage("mark", [USER], topics="all", lineage=True)
    world.stage("strict", [{**USER, "table": "strict"}], topics="all")
    yield world
    world.close()


def made(spark, world, stage, events):
    """The output's events, or the reason of the dead letter, in the order of the events."""
    values = [json.dumps(event).encode() for event in events]
    found = seen(records(spark, world, stage, values).collect())
    return [
        json.loads(value) if topic == "out" else headers["enrich.reason"].decode()
        for _, (topic, value, headers) in sorted(found.items())
    ]


def at(seconds):
    return datetime.fromtimestamp(seconds, UTC).isoformat()


def test_an_as_of_join_takes_the_version_that_was_valid_at_the_events_time(spark, world):
    before = time.time()
    for plan in ("one", "two"):
        world.put("users", {"eve": {"plan": plan}})
    times = sorted(m.timestamp()[1] for m in world.cluster.messages(world.topic("table.users")) if m.key() == b"eve")
    last = times[-1] / 1000
    # The table must be complete beyond the versions: `wait` proves it, then both are asked for as of their times.
    made(spark, world, "wait", [{"user_id": "eve", "ts": at(last)}, {"user_id": "nobody", "ts": at(last)}])
    events = [
        {"user_id": "eve", "ts": at(last + 600)},
        {"user_id": "eve"},
        {"user_id": "eve", "ts": at(before - 86_400)},
    ]
    later, without_time, long_before = made(spark, world, "as-of", events)
    assert later["user"] and later["user"]["plan"] == "two", later["_lineage"]
    assert (without_time["user"], without_time["_lineage"]["user"]["status"]) == (None, "null_key")
    assert (long_before["user"], long_before["_lineage"]["user"]["status"]) in ((None, "expired"), (None, "miss"))


def test_an_event_time_over_nothing_but_the_key_is_the_time_that_is_asked_for(spark, world):
    ahead = round((time.time() + 60) * 1000)
    world.put("users", {f"eve-{ahead}": {"plan": "now"}, "eve-1": {"plan": "now"}})
    made(spark, world, "wait", [{"user_id": "nobody", "ts": at(time.time())}])
    valid, long_before = made(spark, world, "time-of-key", [{"user_id": f"eve-{ahead}"}, {"user_id": "eve-1"}])
    assert valid["user"] == {"plan": "now", "region": None}, "joined as of Kafka's time, which is in 1970 here"
    assert long_before["user"] is None


def test_an_expression_that_fails_is_null_for_its_event_and_no_other(spark, world):
    ahead = round((time.time() + 60) * 1000)  # the history may begin when the table is loaded, which is now
    # Too large for milliseconds: as a time, in a key that has a part of the time in it, and as an index; 0 is none.
    ips = [str(2**63 - 1), str(ahead), "0", "1700000000000000000"]
    too_large, good, zero, nanoseconds = made(spark, world, "failing", [{"user_id": "ann", "ip": ip} for ip in ips])
    for event in (too_large, nanoseconds):
        assert {name: of["status"] for name, of in event["_lineage"].items()} == dict.fromkeys(
            event["_lineage"], "null_key"
        )
    assert [good["_lineage"][name]["status"] for name in ("user", "later")] == ["hit", "miss"]
    assert zero["_lineage"]["pair"]["status"] == "null_key"


def test_an_event_waits_for_its_row_and_goes_to_the_dlq_when_none_comes(spark, world):
    soon = time.time() + 3
    arrives = threading.Timer(1.0, world.put, ["users", {"late": {"plan": "came"}}])
    arrives.start()
    events = [{"user_id": "late", "ts": at(soon)}, {"user_id": "never", "ts": at(soon)}]
    late, never = made(spark, world, "wait", events)
    arrives.join()
    assert late["user"] == {"plan": "came", "region": None}
    assert never == "no row in the table users: miss"
    assert time.time() > soon, "it did not wait for the table to be complete"


def test_keys_of_several_parts_are_looked_up_in_their_order(spark, world):
    events = [{"user_id": 'a"b', "ip": "7"}, {"user_id": "x", "ip": "8"}, {"user_id": "x", "ip": "no number"}]
    first, second, third = made(spark, world, "pairs", events)
    assert (first["pair"], second["pair"], third["pair"]) == ({"n": 1}, {"n": 2}, None)
    assert third["_lineage"]["pair"]["status"] == "null_key"
    assert first["other"] is None


def test_addresses_are_found_in_their_longest_network(spark, world):
    ips = ["10.1.2.3", "10.2.0.1", "::ffff:10.1.0.1", "2001:db8::1", "192.168.0.1", "no address", None]
    found = made(spark, world, "networks", [{"ip": ip} for ip in ips])
    countries = [event["net"] and event["net"]["country"] for event in found]
    assert countries == ["inner", "private", "inner", "doc", None, None, None]
    assert [event["_lineage"]["net"]["status"] for event in found][4:] == ["miss", "bad_key", "null_key"]


def asked_here(spark, world, stage, key):
    """The answer to one key, with this process as the worker: in Spark each worker would have its own gate to pass."""
    spec = StagePlan(spark, world.pipeline, stage).spec
    answer = TaskAnswers(spec).answer(Questions(np.array([True]), [pa.array([key])]))
    return answer.to_pylist()[0]


def test_answers_older_than_their_bound_are_marked_or_end_the_stage_as_the_table_says(spark, world):
    assert asked_here(spark, world, "mark", "ann")["lineage_0"]["status"] == "hit"
    assert asked_here(spark, world, "strict", "ann")["object_0"] == {"plan": "free"}
    with world.cluster.brokers_away():

        def is_marked():
            answer = asked_here(spark, world, "mark", "ann")
            assert answer["object_0"]["plan"] == "free", "the last rows are not served"
            return answer["lineage_0"]["status"] == "stale"

        wait_until(is_marked, what="the mark")
        with pytest.raises(ReportedFailure) as raised:
            asked_here(spark, world, "strict", "ann")
    told = from_report(str(raised.value))
    assert isinstance(told, Unreachable)
    assert "table strict" in told.what
