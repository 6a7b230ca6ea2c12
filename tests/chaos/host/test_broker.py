"""Brokers that go away, and brokers that come back with less than they had acknowledged."""

import shutil

import pytest

from enrich.host.load.snapshots import HeadStarts
from enrich.kafka import new_producer
from tests.support.host.agents import AgentLife, plans_table, produce_plans
from tests.support.kafka.topics import Cluster
from tests.support.waiting import wait_until

TOPIC = "users"


@pytest.fixture
def cluster(own_stack):
    addresses = own_stack.addresses()
    assert addresses is not None
    cluster = Cluster({"bootstrap.servers": addresses.bootstrap_servers})
    cluster.topics.create(TOPIC, config={"cleanup.policy": "compact"})
    return cluster


@pytest.fixture
def life(cluster, tmp_path):
    life = AgentLife(tmp_path / "agent", cluster.connection, plans_table(TOPIC))
    (tmp_path / "agent").mkdir()
    yield life
    life.stop()


def plans(numbers, plan):
    return {f"k{number}": plan for number in numbers}


def log_kept(own_stack):
    """Returns what puts the log back as it is now, while the broker is down: what comes after this is lost."""
    own_stack.down()
    (log,) = (own_stack.folder.path / "kafka" / "data").glob(f"{TOPIC}-0")
    kept = own_stack.folder.path.parent / "kept"
    shutil.copytree(log, kept)
    own_stack.up()

    def put_back():
        own_stack.down()
        shutil.rmtree(log)
        shutil.copytree(kept, log)
        own_stack.up()

    return put_back


@pytest.mark.parametrize("meanwhile", ["follows", "is away", "replaces its client"])
def test_a_topic_that_lost_its_tail_and_grew_again_beyond_it_is_loaded_anew(own_stack, cluster, life, meanwhile):
    """As after an unclean election: the offsets are there again, with other records. Only the leader's terms tell."""
    produce_plans(cluster, TOPIC, **plans(range(10), "kept"))
    life.start().until_complete()
    put_back = log_kept(own_stack)
    produce_plans(cluster, TOPIC, **plans(range(10, 20), "lost"))
    before = life.until_complete()
    assert len(life.rows()) == 20
    life.state()  # the client has said that there is no more
    if meanwhile == "is away":
        life.stop()
    put_back()
    produce_plans(cluster, TOPIC, **plans(range(20, 50), "new"))
    if meanwhile == "is away":
        life.start()
    if meanwhile == "replaces its client":
        life.replace_client()
    wanted = {**plans(range(10), "kept"), **plans(range(20, 50), "new")}
    life.until(lambda _: life.rows() == wanted, "the rows that the topic has")
    assert life.until_complete().complete_through > before.complete_through


def test_a_snapshot_is_not_begun_with_if_its_last_records_are_lost_and_others_have_their_offsets(
    own_stack, cluster, life, tmp_path
):
    produce_plans(cluster, TOPIC, **plans(range(10), "kept"))
    put_back = log_kept(own_stack)
    produce_plans(cluster, TOPIC, **plans(range(10, 20), "lost"))
    life.start().until_complete()
    life.until_saved()
    life.export(tmp_path / "snapshots")
    life.stop()
    put_back()
    produce_plans(cluster, TOPIC, **plans(range(20, 30), "new"))
    assert cluster.topics.end_offsets(TOPIC) == {0: 20}
    (tmp_path / "another").mkdir()
    head_starts = HeadStarts(tmp_path / "snapshots", "test")
    another = AgentLife(tmp_path / "another", cluster.connection, plans_table(TOPIC), head_starts=head_starts)
    try:
        another.start().until(lambda state: state.ready, "its rows")
        assert another.rows() == {**plans(range(10), "kept"), **plans(range(20, 30), "new")}
    finally:
        another.stop()


@pytest.mark.parametrize("is_followed", [False, True], ids=["loaded", "followed and begun with"])
def test_the_end_of_a_transaction_in_a_later_term_of_the_leader_is_no_lost_tail(
    own_stack, cluster, life, caplog, is_followed
):
    """Its marker stands behind the last record: the brokers would miss it, if they were told the record's term."""
    produce_plans(cluster, TOPIC, ann="free")
    if is_followed:
        life.start().until_complete()
    producer = new_producer(cluster.connection, **{"transactional.id": "one"})
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce(TOPIC, b'{"plan": "pro"}', b"bob")
    assert producer.flush(30) == 0
    own_stack.down()
    own_stack.up()
    producer.commit_transaction(60)
    if is_followed:
        life.until(lambda _: "bob" in life.rows(), "the record")
        life.until_saved()
        life.stop()
    life.start().until_complete()
    assert life.rows() == {"ann": "free", "bob": "pro"}
    # In the leader's term of now; so all before it was read.
    produce_plans(cluster, TOPIC, eve="new")
    life.until(lambda _: "eve" in life.rows(), "what came since")
    assert "loaded anew" not in caplog.text


def test_while_the_broker_is_away_the_last_rows_answer_and_are_said_to_be_old(own_stack, cluster, life):
    produce_plans(cluster, TOPIC, ann="free")
    life.start().until_complete()
    own_stack.down()
    gone = life.until(lambda state: state.reason is not None, "the reason")
    assert f"no broker answers: {cluster.connection['bootstrap.servers']}" in gone.reason
    later = [life.state() for _ in range(20)][-1]
    assert (later.ready, later.complete_through) == (True, gone.complete_through)
    assert life.rows() == {"ann": "free"}
    own_stack.up()
    produce_plans(cluster, TOPIC, ann="pro")
    back = life.until_complete()
    assert back.reason is None
    wait_until(lambda: life.rows() == {"ann": "pro"}, what="the update")
