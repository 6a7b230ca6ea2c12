"""A stack with three brokers: topics have three copies, and the brokers die and come back like any server."""

import json
import socket
from contextlib import closing

import pytest

from enrich.kafka.clients.making import new_group_consumer
from enrich.kafka.groups import committed
from tests.integration.dev.stacks import StackUnderTest, assert_clear_error
from tests.support.kafka.topics import Cluster
from tests.support.processes import kill
from tests.support.waiting import wait_until, when_reachable

BROKERS = ("kafka", "kafka-2", "kafka-3")


@pytest.fixture(scope="module")
def stack(tmp_path_factory):
    stack = StackUnderTest(tmp_path_factory.mktemp("brokers") / "stack", quick=True)
    yield stack
    stack.clear_away()


@pytest.fixture(scope="module")
def addresses(stack):
    return stack.up("--brokers", "3")


def cluster_of(addresses):
    return Cluster({"bootstrap.servers": addresses["bootstrap_servers"]})


def copies(cluster, topic):
    """The brokers that have a copy, and those whose copy is in sync, of each partition."""
    found = cluster.topics._admin.list_topics(topic).topics[topic].partitions.values()
    return {frozenset(each.replicas) for each in found}, {frozenset(each.isrs) for each in found}


def is_whole(cluster, topic):
    return copies(cluster, topic) == ({frozenset({1, 2, 3})}, {frozenset({1, 2, 3})})


def test_topics_have_three_copies_also_the_internal_ones_and_one_broker_may_die(stack, addresses):
    assert len(addresses["bootstrap_servers"].split(",")) == 3
    assert [name for name in stack.status() if name.startswith("kafka")] == list(BROKERS)
    cluster = cluster_of(addresses)
    cluster.topics.create("kept", partitions=3, config={"min.insync.replicas": "2"})
    wait_until(lambda: is_whole(cluster, "kept"), what="all copies of a topic")
    with closing(new_group_consumer(cluster.connection, "any")) as consumer:
        assert committed(consumer, "any", "kept", [0]) == []
    wait_until(lambda: is_whole(cluster, "__consumer_offsets"), what="all copies of the internal topic")
    kill(stack.pids()["kafka-2"])
    when_reachable(lambda: cluster.produce_ids("kept", range(100)))
    assert set(cluster.ids("kept")) == set(range(100))
    assert stack.status()["kafka-2"]["state"] == "dead"
    done = stack.run("up", "--json")
    assert "kafka-2 had died; started again at 127.0.0.1:" in done.stderr
    assert json.loads(done.stdout) == addresses
    wait_until(lambda: is_whole(cluster, "kept"), what="the copy of the broker that came back")


def test_the_number_of_brokers_is_that_of_the_first_start(stack, addresses):
    assert stack.up() == addresses
    assert stack.up("--brokers", "3") == addresses
    assert_clear_error(stack.run("up", "--brokers", "1"), 2, "this stack has 3 brokers", "reset --yes")
    assert_clear_error(stack.run("up", "--secure"), 2, "for one broker only")
    assert_clear_error(stack.run("up", "--with", "kafka-2"), 2, "no server 'kafka-2'")
    assert sorted(stack.pids()) == sorted([*BROKERS, "redis"])


def test_down_ends_all_quickly_and_the_next_up_finds_their_data(stack, addresses):
    cluster_of(addresses).topics.create("stays")
    cluster_of(addresses).produce_ids("stays", range(10))
    assert stack.run("logs", "kafka-3", "-n", "1").stdout
    done = stack.run("down")
    assert done.stdout == "stopped redis, kafka-3, kafka-2, kafka\n"
    assert done.stderr == ""  # none was killed
    assert stack.processes() == []
    assert stack.up() == addresses
    assert set(cluster_of(addresses).ids("stays")) == set(range(10))


def test_brokers_whose_controller_gets_other_ports_find_it(stack, addresses):
    first, *others = addresses["bootstrap_servers"].split(",")
    before = cluster_of(addresses)
    # On a slow machine three brokers may take longer than the client waits, and make it all the same.
    when_reachable(lambda: before.topics.exists("before") or before.topics.create("before"))
    before.produce_ids("before", range(10))
    kill(stack.pids()["kafka"])
    with socket.socket() as squatter:
        squatter.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        squatter.bind(("127.0.0.1", int(first.rpartition(":")[2])))
        squatter.listen()
        done = stack.run("up", "--new-ports", "--json")
    assert done.returncode == 0, done.stderr
    assert "kafka had died" in done.stderr and "kafka-2 had died" not in done.stderr
    moved = json.loads(done.stdout)
    now, *still = moved["bootstrap_servers"].split(",")
    assert (now != first, still) == (True, others)
    cluster = cluster_of(moved)
    wait_until(lambda: is_whole(cluster, "before"), what="all copies of a topic from before")
    cluster.topics.create("later")
    wait_until(lambda: is_whole(cluster, "later"), what="all copies of a new topic")
    assert set(cluster.ids("before")) == set(range(10))


def test_brokers_whose_controller_was_killed_are_stopped_too(stack, addresses):
    kill(stack.pids()["kafka"])
    done = stack.run("down")
    assert (done.stdout, done.stderr) == ("stopped redis, kafka-3, kafka-2\n", "")
    assert stack.processes() == []
    assert stack.run("reset", "--yes").returncode == 0
    assert not stack.directory.exists()


def test_a_stack_has_at_most_three(new_stack):
    assert_clear_error(new_stack().run("up", "--brokers", "4"), 2, "1 to 3 brokers")
