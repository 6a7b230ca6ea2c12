"""Who was dropped from its group, and does not know it yet, forwards nothing."""

from collections import Counter
from contextlib import closing
from typing import Any

import pytest

from edge_service.retrier.forwarding import Forwarding, rooms_of
from edge_service.retrier.plan import plans_of
from edge_service.retrier.reading import Reading, positions
from edge_service.retrier.waiting import Limits
from enrich.base.errors import Retryable
from tests.support.edge.retries import RetryWorld, running
from tests.support.kafka.topics import Cluster
from tests.support.sync.service import SHORT_SESSIONS
from tests.support.waiting import wait_until

MOST = Limits(1_000, 2**20)


def test_a_member_that_was_dropped_forwards_nothing_of_what_it_had_read(cluster: Cluster) -> None:
    world = RetryWorld(cluster)
    world.make_topics(partitions=1)
    world.put(range(20), partitions=1)
    (plan,) = plans_of(world.pipeline())
    # Dropped once it has not polled for so long, as if it had stood still.
    connection: dict[str, Any] = {**cluster.connection, **SHORT_SESSIONS, "max.poll.interval.ms": 3_000}
    with closing(Reading(connection, plan)) as reading:

        def has_read() -> bool:
            reading.read(0.1)
            return sum(map(len, reading.lines())) == 20

        wait_until(has_read, what="the records")
        (line,) = reading.lines()
        group = reading.group
        forwarding = Forwarding(cluster.connection, plan, rooms_of(plan, cluster.topics, {}), 1)
        with closing(forwarding):
            wait_until(lambda: not world.members(), what="the end of its membership")
            with running(world):
                world.wait_for(range(20))
            messages = line.due(line.due_s or 0.0, MOST)
            assert messages
            with pytest.raises(Retryable):
                forwarding.forward(forwarding.sorted_out(messages, {}), positions([(line, messages)]), group)
            assert not forwarding.is_open
    assert world.came_out() == Counter(range(20))
