"""One of several has the turn: the first, until it leaves."""

from enrich.kafka import new_admin_client
from enrich.kafka.turns import Turn
from tests.support.waiting import wait_until


def test_the_first_has_the_turn_however_many_come_and_the_next_has_it_when_it_leaves(cluster, new_topic):
    topic = new_topic(partitions=6)
    admin = new_admin_client(cluster.connection)
    first, *others = [Turn(cluster.connection, admin, f"group of {topic}", topic) for _ in range(4)]
    wait_until(first.has_it)
    for _ in range(20):
        assert first.has_it(0.05)
        assert not any(other.has_it(0.01) for other in others)
    first.close()
    wait_until(lambda: any(other.has_it(0.01) for other in others))
    # Of those that joined at the same moment one stays.
    wait_until(lambda: [other.has_it(0.01) for other in others].count(True) == 1)
    for _ in range(20):
        assert [other.has_it(0.05) for other in others].count(True) == 1
    for turn in others:
        turn.close()
