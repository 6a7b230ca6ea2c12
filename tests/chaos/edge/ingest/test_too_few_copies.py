"""Three copies, of which two must have a record before it is acknowledged."""

import time

import pytest

from enrich.dev import Stack
from tests.chaos.edge.ingest.senders import Senders
from tests.chaos.edge.ingest.worlds import check, world_of
from tests.support.processes import all_frozen
from tests.support.seed import rounds
from tests.support.waiting import wait_until

_FENCED_S = 6.0
"""After this the brokers know that one is dead (`broker.session.timeout.ms`)."""


@pytest.fixture(scope="module")
def three(tmp_path_factory):
    stack = Stack(tmp_path_factory.mktemp("three") / "stack")
    yield stack
    stack.reset(yes=True)


@pytest.fixture
def world(three, tmp_path):
    return world_of(three, tmp_path, brokers=3, min_insync_replicas="2")


def test_what_only_one_broker_has_is_not_acknowledged_and_no_broker_takes_what_is_with_it(world):
    thaws = []
    with world.ingest(), Senders(world.port) as senders:
        for _ in range(rounds(1, 20)):
            senders.until_acknowledged(300)
            with all_frozen([world.pid("kafka"), world.pid("kafka-3")]):
                # It alone has what comes now.
                senders.until_answered(503, 1)
                world.kill("kafka-2")
            thaws.append(time.time())
            senders.until_acknowledged(300)
            world.stack.up()
            senders.until_acknowledged(300)
    check(world, senders, thaws)


def test_what_waits_for_the_copies_of_a_dead_broker_is_there_again_only_if_something_timed_out(three, tmp_path):
    # Long enough for records to wait that are not all of one age: the older ones time out, the others are sent again.
    world = world_of(three, tmp_path, brokers=3, deadline_s=3.0, min_insync_replicas="2")
    with world.ingest(), Senders(world.port, count=20, longest_pause_s=1.5) as senders:
        for _ in range(rounds(1, 20)):
            senders.until_acknowledged(300)
            world.kill("kafka-3")
            senders.until_answered(503, 1)
            senders.until_acknowledged(300)
            world.stack.up()
            senders.until_acknowledged(300)
    check(world, senders)


def test_with_two_of_three_brokers_dead_it_is_503_and_never_2xx(world):
    with world.ingest(), Senders(world.port) as senders:
        senders.until_acknowledged(300)
        world.kill("kafka-2", "kafka-3")
        dead = time.time()
        # Before the others know it, and after.
        wait_until(lambda: time.time() > dead + _FENCED_S + 2)
        senders.until_answered(503, 10)
        alive = time.time()
        wrong = {senders.ends[one] for one, began in senders.began.items() if dead < began and one in senders.ends}
        assert wrong == {503}
        world.stack.up()
        senders.until_acknowledged(300)
    assert {one for one in senders.acknowledged if dead < senders.began[one] < alive - _FENCED_S} == set()
    check(world, senders)
