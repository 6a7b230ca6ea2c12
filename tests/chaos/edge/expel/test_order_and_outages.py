"""Instances killed, frozen, started and stopped under load, and an endpoint that goes away: no event is lost."""

from tests.chaos.edge.expel.instances import PARTITIONS, Arrivals, Instances, at_work, load
from tests.support.edge.expel import ExpelWorld
from tests.support.edge.sinks import RunningSink
from tests.support.processes import frozen, kill
from tests.support.seed import rounds
from tests.support.waiting import wait_until

PER_KILL = 3 * 8 * 20
"""Events of the requests that are under way, and of those that are settled and not committed."""


def test_keys_keep_their_order_while_instances_come_and_go(
    world: ExpelWorld, sink: RunningSink, instances: Instances, arrivals: Arrivals
) -> None:
    world.section = {**world.section, "order": "key"}
    sink.behave({"/acme": {"delay": "30ms"}})
    with load(world):
        running = [instances.expel()]
        at_work(running[0])
        while len(running) < 4:
            running.append(instances.expel())
            at_work(running[-1], 20)
        while len(running) > 1:
            assert running.pop(0).stop() == 0
            wait_until(lambda: sum(one.partitions() for one in running) >= 2 * PARTITIONS, what="all partitions")
        at_work(running[0])
    arrivals.require_all(world)
    assert running[0].stop() == 0
    arrivals.require_order()


def test_an_endpoint_that_is_down_for_a_while_gets_each_event_once(
    world: ExpelWorld, sink: RunningSink, instances: Instances, arrivals: Arrivals
) -> None:
    with load(world):
        instance = instances.expel()
        instances.retrier()
        at_work(instance)
        sink.behave({"/acme": {"status": 503}})
        wait_until(lambda: instance.route().get("details", {}).get("breaker") == "open", what="the open breaker")
        before = sink.seen("/acme")["requests"]
        failed = instance.count("requests_failed")
        wait_until(lambda: instance.count("requests_failed") >= failed + rounds(2, 12), what="some probes")
        assert sink.seen("/acme")["requests"] - before <= rounds(20, 40)
        sink.be_well()
        at_work(instance)
    arrivals.require_all(world)


def test_keys_keep_their_order_through_kills(
    world: ExpelWorld, sink: RunningSink, instances: Instances, arrivals: Arrivals
) -> None:
    world.section = {**world.section, "order": "key", "local": {"tries": 1}}
    sink.behave({"/acme": {"status": 503, "share": 0.1}})
    kills = rounds(2, 20)
    with load(world):
        instances.retrier()
        for _ in range(kills):
            instance = instances.expel()
            at_work(instance)
            kill(instance.process.pid)
        at_work(instances.expel())
    sink.be_well()
    arrivals.require_all(world, kills * PER_KILL)
    arrivals.require_order(with_repeats=True)


def test_an_instance_that_was_frozen_until_another_took_over_loses_nothing(
    world: ExpelWorld, sink: RunningSink, instances: Instances, arrivals: Arrivals
) -> None:
    sink.behave({"/acme": {"delay": "30ms"}})
    with load(world):
        both = [instances.expel(), instances.expel()]
        for instance in both:
            at_work(instance)
        for number in range(rounds(2, 12)):
            still, other = both[number % 2], both[1 - number % 2]
            with frozen(still.process.pid):
                wait_until(lambda other=other: other.partitions() == 2 * PARTITIONS, what="the other to have all")  # type: ignore[misc] # a default binds the loop's value
                at_work(other)
            at_work(still, 20)
    arrivals.require_all(world, rounds(2, 12) * PER_KILL)
    assert [instance.stop() for instance in both] == [0, 0]
