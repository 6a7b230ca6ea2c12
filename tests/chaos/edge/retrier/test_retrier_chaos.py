"""Instances killed, frozen, started and stopped under load: what went in comes out, each event exactly once."""

from collections import Counter
from contextlib import AbstractContextManager

from enrich.kafka import DeliveringProducer
from enrich.kafka.retries import retry_headers
from tests.support.edge.retries import RetrierProcess, RetryWorld, Start, event_headers
from tests.support.kafka.producing import producing
from tests.support.processes import frozen, kill
from tests.support.seed import random_source, rounds
from tests.support.waiting import wait_until

PARTITIONS = 4


def load(world: RetryWorld) -> AbstractContextManager[None]:
    """About two thousand events a second, of both pauses, as long as the block runs."""
    source = random_source("load")

    def one(producer: DeliveringProducer, number: int) -> None:
        place = (f"{world.name}.acme", number % PARTITIONS, number)
        producer.produce(
            world.retry_in(source.choice(world.pauses)),
            b"%d" % number,
            b"%d" % number,
            headers=[*event_headers(number), *retry_headers(place, number, 0)],
            partition=number % PARTITIONS,
        )

    return producing(world.cluster, one, pause_s=0.005, at_once=10)


def audit(world: RetryWorld) -> None:
    went_in: Counter[int] = Counter()
    for pause in world.pauses:
        went_in += world.cluster.ids(world.retry_in(pause))
    world.wait_for(went_in, deadline_s=180)
    assert world.came_out() == went_in


def at_work(instance: RetrierProcess, more: int = 500) -> None:
    before = instance.forwarded()
    wait_until(lambda: instance.forwarded() >= before + more, what="an instance at work")


def test_an_instance_that_is_killed_again_and_again_forwards_each_event_once(world: RetryWorld, start: Start) -> None:
    with load(world):
        for _ in range(rounds(2, 30)):
            instance = start()
            at_work(instance)
            kill(instance.process.pid)
            instance.close()
        last = start()
        at_work(last)
    audit(world)
    assert last.stop() == 0


def test_an_instance_that_was_frozen_until_another_took_over_writes_nothing_more_of_its_own(
    world: RetryWorld, start: Start
) -> None:
    with load(world):
        instances = [start(), start()]
        for instance in instances:
            at_work(instance)
        for number in range(rounds(2, 20)):
            still, other = instances[number % 2], instances[1 - number % 2]
            with frozen(still.process.pid):
                wait_until(lambda other=other: has_all(other), what="the other to have all partitions")  # type: ignore[misc] # a default binds the loop's value
                at_work(other)
            at_work(still, more=1)
    audit(world)
    assert [instance.stop() for instance in instances] == [0, 0]


def test_one_instance_alone_that_was_frozen_past_its_session_goes_on(world: RetryWorld, start: Start) -> None:
    with load(world):
        instance = start()
        at_work(instance)
        with frozen(instance.process.pid):
            wait_until(lambda: not world.members(), what="the end of its session")
        at_work(instance)
    audit(world)


def test_instances_that_come_and_go_forward_each_event_once(world: RetryWorld, start: Start) -> None:
    with load(world):
        instances = [start()]
        at_work(instances[0])
        while len(instances) < 4:
            instances.append(start())
            at_work(instances[-1], more=1)
        while len(instances) > 1:
            assert instances.pop(0).stop() == 0
            at_work(instances[-1])
    audit(world)


def has_all(instance: RetrierProcess) -> bool:
    return bool(instance.route().get("gauges", {}).get("partitions") == PARTITIONS * 2)
