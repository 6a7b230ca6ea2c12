"""The agent's work in one process: what is in the topic is in the store, and the header says how fresh it is."""

import json
from types import SimpleNamespace

import pyarrow as pa
import pytest

from enrich.agent.agent import Agent
from enrich.agent.header import HeaderReader, HeaderWriter
from enrich.agent.tables import TopicTable
from enrich.codecs import JsonDecoder
from stores.clock import SystemClock
from stores.protocol import TableSpec
from stores.rocks import RocksReader, RocksStore
from stores.table import Status
from tests.support.waiting import wait_until

COLUMNS = pa.schema([pa.field("plan", pa.string())])


@pytest.fixture
def users(new_topic):
    topic = new_topic(partitions=3, cleanup_policy="compact")
    return TopicTable("users", topic, TableSpec(COLUMNS, JsonDecoder(COLUMNS)), must_be_compacted=True)


@pytest.fixture
def running(cluster, users, tmp_path):
    tables = {"users": users}
    store = RocksStore(tmp_path / "rows", {"users": users.spec}, SystemClock())
    header = HeaderWriter(tmp_path / "header")
    agent = Agent(store, tables, cluster.connection, header, SystemClock())
    reader = RocksReader(tmp_path / "rows", {"users": users.spec})

    def answers(*keys):
        found = reader.snapshot().table("users").lookup(pa.array(keys), ["plan"])
        values = [None if value is None else value["plan"] for value in found.values.to_pylist()]
        return list(zip(map(Status, found.status.to_pylist()), values, strict=True))

    def state():
        agent.step()
        written = HeaderReader(tmp_path / "header").read()
        assert written is not None
        return written.tables["users"]

    yield SimpleNamespace(agent=agent, answers=answers, state=state)
    agent.close()
    reader.close()
    store.close()
    header.close()


def produce(cluster, users, **rows):
    values = {key: None if plan is None else json.dumps({"plan": plan}).encode() for key, plan in rows.items()}
    cluster.produce(users.topic, [(key.encode(), value) for key, value in values.items()])


def test_what_was_in_the_topic_is_loaded_and_what_comes_is_followed(cluster, users, running):
    produce(cluster, users, ann="free", bob="pro", eve=None)
    loaded = wait_until(lambda: (state := running.state()).ready and state, what="the load")
    assert loaded.rows == 3
    assert running.answers("ann", "bob", "eve", "zoe") == [
        (Status.HIT, "free"),
        (Status.HIT, "pro"),
        (Status.DELETED, None),
        (Status.MISS, None),
    ]
    produce(cluster, users, ann="pro", bob=None, zoe="new")
    produced_at = SystemClock().now_ms()
    wait_until(lambda: (running.state().complete_through or 0) > produced_at, what="freshness beyond the update")
    assert running.answers("ann", "bob", "zoe") == [(Status.HIT, "pro"), (Status.DELETED, None), (Status.HIT, "new")]


def test_an_empty_topic_is_ready_and_answers_miss(running):
    wait_until(lambda: running.state().ready, what="the empty table")
    assert running.answers("ann") == [(Status.MISS, None)]


def test_a_record_that_cannot_become_a_row_stops_nothing_and_is_counted_and_told(cluster, users, running, caplog):
    produce(cluster, users, ann="free")
    cluster.produce(users.topic, [(b"bob", b"no json")])
    wait_until(lambda: running.state().ready, what="the load")
    cluster.produce(users.topic, [(b"eve", b'{"plan": 5}')])
    produce(cluster, users, zoe="new")
    wait_until(lambda: running.state().rows == 2 and running.state().undecodable == 2, what="both")
    assert running.answers("ann", "bob", "eve", "zoe") == [
        (Status.HIT, "free"),
        (Status.MISS, None),
        (Status.MISS, None),
        (Status.HIT, "new"),
    ]
    reasons = [record.reason for record in caplog.records if record.message == "a record cannot become a row"]
    assert "plan: expected text, got a whole number" in reasons
    assert len(reasons) == 2
