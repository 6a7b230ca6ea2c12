"""How a route's flow reads: nothing that it does for slow stores costs a quick one."""

import threading

import pytest

from enrich.delivery.flow import Flow
from enrich.delivery.partitions.assigned import Assigned
from enrich.delivery.plan import FlowPlan
from enrich.kafka import new_group_consumer
from tests.support.waiting import wait_until


class Quick:
    """A sink that takes every batch at once and, as writers do, says that it is alive."""

    def __init__(self):
        self.taken = 0

    def take(self, messages, keep_alive):
        keep_alive()
        self.taken += len(messages)

    def remark(self, gap):
        raise AssertionError(gap)

    def settle(self):
        return "the same store"

    def report(self, advances):
        pass


@pytest.fixture
def held(monkeypatch):
    held = []
    hold = Assigned.hold

    def counted(*arguments):
        held.append(arguments)
        hold(*arguments)

    monkeypatch.setattr(Assigned, "hold", counted)
    return held


def test_a_flow_whose_batches_are_quick_never_pauses_its_fetches(cluster, new_topic, held):
    topic = new_topic()
    cluster.produce(topic, [(b"k%d" % number, b"v") for number in range(5_000)])
    consumer = new_group_consumer(cluster.connection, f"{topic}.quick")
    sink, stopping = Quick(), threading.Event()
    flow = Flow.in_batches(consumer, FlowPlan(topic, 0, {}, 0), sink)
    thread = threading.Thread(target=flow.run, args=[stopping])
    thread.start()
    try:
        wait_until(lambda: sink.taken == 5_000, what="all records")
    finally:
        stopping.set()
        thread.join()
        consumer.close()
    assert held == []
