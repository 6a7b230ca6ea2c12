"""`access: mapped | rocks | auto`: another way to the rows, never other rows."""

import json

import pyarrow as pa
import pytest

from enrich.config import load_text
from enrich.host.reader.reading import AgentReader, RowsReader
from stores.protocol import NO_NETWORK
from stores.rocks.read.view import RocksTable
from stores.segments.read.view import SegmentsTable
from stores.table import TIMESTAMP, Status
from tests.support.host.ending import stop_agent_of
from tests.support.processes import kill
from tests.support.seed import random_source, rounds
from tests.support.waiting import wait_until

PIPELINE = """
name: test
kafka: {{bootstrap_servers: "{servers}"}}
state_dir: {state_dir}
tables:
  mapped: {{topic: {users}, format: json, columns: "plan string, tags array<string>", history: 1h, access: mapped}}
  rocks: {{topic: {users}, format: json, columns: "plan string, tags array<string>", history: 1h, access: rocks}}
  auto: {{topic: {users}, format: json, columns: "plan string, tags array<string>", history: 1h, access: auto}}
  networks: {{topic: {networks}, format: json, columns: "country string", key: cidr, access: mapped}}
  networks_on_disk: {{topic: {networks}, format: json, columns: "country string", key: cidr, access: rocks}}
"""
WAYS = ("mapped", "rocks", "auto")
KEYS = pa.array([*(f"k{number}" for number in range(80)), "", "unknown", None])
ADDRESSES = pa.array(["10.1.2.3", "10.200.0.1", "::ffff:10.1.9.9", "2001:db8::1", "11.0.0.1", "nonsense", None])


@pytest.fixture
def topics(new_topic):
    return [new_topic(partitions=2, cleanup_policy="compact") for _ in range(2)]


@pytest.fixture
def pipeline(stack, topics, tmp_path):
    users, networks = topics
    text = PIPELINE.format(
        servers=stack.bootstrap_servers, state_dir=tmp_path / "state", users=users, networks=networks
    )
    pipeline = load_text(text)
    yield pipeline
    stop_agent_of(pipeline)


def produce_some(cluster, topic, random):
    def row():
        return (
            None if random.random() < 0.2 else {"plan": random.choice("abc"), "tags": random.choice([None, [], ["x"]])}
        )

    rows = [(f"k{random.randrange(80)}", row()) for _ in range(random.randrange(1, 60))]
    cluster.produce(topic, [(key.encode(), None if one is None else json.dumps(one).encode()) for key, one in rows])


def answers(view, keys, **question):
    found = view.lookup(keys, view.columns.names, **question)
    columns = (found.status, found.values, found.partition, found.offset, found.timestamp.cast(pa.int64()))
    return list(zip(*(column.to_pylist() for column in columns), strict=True))


def assert_same(snapshot, times):
    """All ways answer alike: now, at these times, and under a pin."""
    views = [snapshot.table(way) for way in WAYS]
    pin = {partition: max(0, end - 7) for partition, end in views[0].positions.items()}
    as_of = pa.array([times[number % len(times)] for number in range(len(KEYS))], TIMESTAMP)
    for question in ({}, {"pin": pin}, {"as_of": as_of}, {"as_of": as_of, "pin": pin}):
        mapped, rocks, auto = (answers(view, KEYS, **question) for view in views)
        assert mapped == rocks
        assert mapped == auto
    networks = [answers(snapshot.table(name), ADDRESSES) for name in ("networks", "networks_on_disk")]
    assert networks[0] == networks[1]


def ways(snapshot):
    return {name: type(snapshot.table(name).view) for name in (*WAYS, "networks")}


def until_mapped(reader):
    def mapped():
        snapshot = reader.snapshot()
        wanted = dict.fromkeys((*WAYS, "networks"), SegmentsTable) | {"rocks": RocksTable}
        return snapshot if ways(snapshot) == wanted else None

    return wait_until(mapped, what="segments")  # the loops may have to be compiled first


def test_three_ways_over_one_topic_give_the_same_answers_also_over_the_agents_death(cluster, pipeline, topics):
    random = random_source("three ways to a table")
    users, networks = topics
    produce_some(cluster, users, random)
    texts = {"10.1.2.3/8": "A", "10.1.0.0/16": "B", "2001:db8::/32": "C", "no network": "X"}
    cluster.produce(networks, [(key.encode(), json.dumps({"country": c}).encode()) for key, c in texts.items()])
    reader = AgentReader(pipeline)
    times = [0]
    reader.wait_until_ready(deadline_s=180)
    assert_same(reader.snapshot(), times)
    for number in range(rounds(3, 20)):
        until_mapped(reader)
        for _ in range(rounds(10, 30)):
            produce_some(cluster, users, random)
            snapshot = reader.snapshot()
            times.append(snapshot.header.heartbeat_ms)
            assert_same(snapshot, times)
        if number % 2 == 0:
            kill(reader.header().pid)
        wait_until(lambda: reader.snapshot().table("rocks").positions == ends(cluster, users), what="the last records")
        assert_same(until_mapped(reader), times)
    found = [status for status, *_ in answers(until_mapped(reader).table("networks"), ADDRESSES)]
    assert found == [Status.HIT] * 4 + [Status.MISS, Status.BAD_KEY, Status.NULL_KEY]
    reader.close()
    rows = RowsReader(pipeline)
    assert [one.reason for one in rows.snapshot().table("networks").quarantined()] == [NO_NETWORK]
    assert {version.key for version in rows.snapshot().table("networks").scan()} >= {b"10.0.0.0/8"}
    rows.close()


def test_a_worker_that_reads_only_mapped_tables_opens_no_database(cluster, pipeline, topics):
    produce_some(cluster, topics[0], random_source("only mapped"))
    everything, only = AgentReader(pipeline), AgentReader(pipeline, tables=["mapped", "auto"])
    everything.wait_until_ready(deadline_s=180)
    until_mapped(everything)
    snapshot = only.snapshot()
    assert only._rows is None
    assert len(snapshot.table("mapped").lookup(KEYS, ["plan"]).status) == len(KEYS)
    everything.close()
    only.close()


def ends(cluster, topic):
    return cluster.topics.end_offsets(topic)
