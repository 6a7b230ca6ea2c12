"""The agent's work in one process: what is in the topic is in the store, and the header says how fresh it is."""

import pytest

from stores.clock import SystemClock
from stores.rocks import Room
from stores.table import Status
from tests.support.host.agents import AgentLife, plans_table
from tests.support.host.agents import produce_plans as produce


@pytest.fixture
def topic(new_topic):
    return new_topic(partitions=3, cleanup_policy="compact")


@pytest.fixture
def running(cluster, topic, tmp_path):
    life = AgentLife(tmp_path, cluster.connection, plans_table(topic)).start()
    yield life
    life.stop()


def test_what_was_in_the_topic_is_loaded_and_what_comes_is_followed(cluster, topic, running):
    produce(cluster, topic, ann="free", bob="pro", eve=None)
    loaded = running.until(lambda state: state.ready, "the load")
    assert loaded.rows == 3
    assert running.answers("ann", "bob", "eve", "zoe") == [
        (Status.HIT, "free"),
        (Status.HIT, "pro"),
        (Status.DELETED, None),
        (Status.MISS, None),
    ]
    produce(cluster, topic, ann="pro", bob=None, zoe="new")
    produced_at = SystemClock().now_ms()
    running.until(lambda state: state.complete_through > produced_at, "freshness beyond the update")
    assert running.answers("ann", "bob", "zoe") == [(Status.HIT, "pro"), (Status.DELETED, None), (Status.HIT, "new")]


def test_an_empty_topic_is_ready_and_answers_miss(running):
    running.until(lambda state: state.ready, "the empty table")
    assert running.answers("ann") == [(Status.MISS, None)]


def test_a_record_that_cannot_become_a_row_stops_nothing_and_is_quarantined_and_told(cluster, topic, running, caplog):
    produce(cluster, topic, ann="free")
    cluster.produce(topic, [(b"bob", b"no json")])
    running.until(lambda state: state.ready, "the load")
    cluster.produce(topic, [(b"eve", b'{"plan": 5}')])
    produce(cluster, topic, zoe="new")
    running.until(lambda state: (state.rows, state.quarantined) == (2, 2), "both")
    assert running.answers("ann", "bob", "eve", "zoe") == [
        (Status.HIT, "free"),
        (Status.MISS, None),
        (Status.MISS, None),
        (Status.HIT, "new"),
    ]
    reasons = [
        record.reason for record in caplog.records if record.getMessage().startswith("a record cannot become a row")
    ]
    assert "plan: expected text, got a whole number" in reasons
    assert len(reasons) == 2


@pytest.fixture
def little_room(monkeypatch):
    monkeypatch.setattr("stores.rocks.store.Room", lambda: Room(records=1))


def test_a_full_quarantine_is_said_and_all_records_are_counted(little_room, cluster, topic, running):
    cluster.produce(topic, [(b"bob", b"no json"), (b"eve", b"no json")])
    running.until(lambda state: state.ready, "the load")
    produce(cluster, topic, ann="free")
    cluster.produce(topic, [(b"zoe", b"no json")])
    state = running.until(lambda state: (state.rows, state.quarantined) == (1, 3), "all of them")
    assert state.ready
    assert state.reason == "the quarantine is full: it keeps 1 records"


def test_who_asks_for_freshness_does_not_wait_for_the_next_round(cluster, topic, running, monkeypatch):
    running.until_complete()
    monkeypatch.setattr("enrich.host.claims.watch._ASK_EVERY_MS", 3_600_000)
    produce(cluster, topic, ann="free")
    running.until(lambda state: state.rows == 1, "the row")
    stands = [running.state().complete_through for _ in range(20)][-1]
    running.refresh()
    running.until(lambda state: state.complete_through > stands, "a later moment")


def test_what_is_said_of_the_tables_is_of_the_seq_that_is_said_with_it(running, monkeypatch):
    """A load ends in a thread of its own, also while the states are looked at."""
    running.until(lambda state: state.ready, "the empty table")
    agent, store, _ = running._running
    telling, left = agent._telling, [store]
    state_of = telling._state_of

    def state_and_publication(*given):
        state = state_of(*given)
        while left:
            left.pop().publish({})
        return state

    monkeypatch.setattr(telling, "_state_of", state_and_publication)
    running.refresh()
    running.until(lambda _: not left, "a publication meanwhile")
    assert agent.header.seq == store.seq
