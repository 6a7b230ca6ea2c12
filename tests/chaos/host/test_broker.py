"""Brokers that go away, and brokers that come back with less than they had acknowledged."""

import shutil

import pytest

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


@pytest.mark.parametrize("meanwhile", ["follows", "is away", "replaces its client"])
def test_a_topic_that_lost_its_tail_and_grew_again_beyond_it_is_loaded_anew(own_stack, cluster, life, meanwhile):
    """As after an unclean election: the offsets are there again, with other records. Only the leader's terms tell."""
    produce_plans(cluster, TOPIC, **plans(range(10), "kept"))
    life.start().until_complete()
    own_stack.down()
    (log,) = (own_stack.folder.path / "kafka" / "data").glob(f"{TOPIC}-0")
    kept = own_stack.folder.path.parent / "kept"
    shutil.copytree(log, kept)
    own_stack.up()
    produce_plans(cluster, TOPIC, **plans(range(10, 20), "lost"))
    before = life.until_complete()
    assert len(life.rows()) == 20
    life.state()  # the client has said that there is no more
    if meanwhile == "is away":
        life.stop()
    own_stack.down()
    shutil.rmtree(log)
    shutil.copytree(kept, log)
    own_stack.up()
    produce_plans(cluster, TOPIC, **plans(range(20, 50), "new"))
    if meanwhile == "is away":
        life.start()
    if meanwhile == "replaces its client":
        life.replace_client()
    wanted = {**plans(range(10), "kept"), **plans(range(20, 50), "new")}
    life.until(lambda _: life.rows() == wanted, "the rows that the topic has")
    assert life.until_complete().complete_through > before.complete_through


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
