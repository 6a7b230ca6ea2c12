"""A producer that has met an error it cannot get over is replaced: nothing waits for ever, and nothing is lost."""

from collections import Counter

from edge_service.expel.route import ExpelRoute
from enrich.tally import Node, NodeKind
from tests.support.edge.expel import Endpoint, ExpelWorld, RunningExpel, expelling
from tests.support.kafka.fatal import make_fatal
from tests.support.kafka.topics import Cluster
from tests.support.observe.told import told
from tests.support.waiting import wait_until


def route_of(running: RunningExpel) -> ExpelRoute:
    (route,) = running._routes
    assert isinstance(route, ExpelRoute)
    return route


def test_events_go_on_to_their_retry_topic_by_a_new_producer(cluster: Cluster) -> None:
    with Endpoint(lambda _: 503) as endpoint:
        world = ExpelWorld(cluster, url=endpoint.url())
        world.make()
        with expelling(world) as running:
            world.produce(range(5))
            wait_until(lambda: world.waiting() == Counter(range(5)), what="the first events")
            outbox = route_of(running)._outbox
            assert outbox is not None
            assert outbox._producer is not None
            make_fatal(outbox._producer)
            world.produce(range(5, 10))
            wait_until(lambda: set(world.waiting()) == set(range(10)), deadline_s=120, what="the others")
            world.wait_until_all_is_committed()


def test_tallies_are_written_by_a_new_producer(cluster: Cluster) -> None:
    with Endpoint() as endpoint:
        world = ExpelWorld(cluster, url=endpoint.url())
        world.make()
        node = Node(world.name, NodeKind.expel, "acme")
        with expelling(world) as running:
            for part in range(3):
                world.produce(range(part * 10, part * 10 + 10))
                endpoint.wait_for(range(part * 10, part * 10 + 10))
                enough = part * 10 + 10
                wait_until(lambda: len(told(cluster, world.name).of(node).went) == enough, what="tallies")  # noqa: B023 - at once
                writer = route_of(running).clients.tallies._writer
                assert writer is not None
                assert writer._producer is not None
                make_fatal(writer._producer)
