"""One of several has the turn: the first, until it leaves."""

from contextlib import ExitStack, closing

from enrich.kafka import new_admin_client
from enrich.kafka.turns import Turn
from tests.support.waiting import wait_until


def test_the_first_has_the_turn_however_many_come_and_the_next_has_it_when_it_leaves(cluster, new_topic):
    topic = new_topic(partitions=6)
    admin = new_admin_client(cluster.connection)
    in_a_row = 0

    def one_stays():
        # Those that join at the same moment may hand it over until they know of each other. Never do two have it.
        nonlocal in_a_row
        having = [other.has_it(0.05) for other in others].count(True)
        assert having <= 1
        in_a_row = in_a_row + 1 if having else 0
        return in_a_row == 20

    # Closed whatever happens: a member of a group that is only forgotten may keep its process from going on.
    with ExitStack() as held:
        turns = [Turn(cluster.connection, admin, f"group of {topic}", topic) for _ in range(4)]
        first, *others = [held.enter_context(closing(turn)) for turn in turns]
        wait_until(first.has_it)
        for _ in range(20):
            assert first.has_it(0.05)
            assert not any(other.has_it(0.01) for other in others)
        first.close()
        wait_until(one_stays)


def test_who_has_not_got_a_free_turn_yet_is_behind_nobody(cluster, new_topic):
    topic = new_topic()
    admin = new_admin_client(cluster.connection)
    with ExitStack() as held:
        first, second = (Turn(cluster.connection, admin, f"group of {topic}", topic) for _ in range(2))
        held.enter_context(closing(first))
        held.enter_context(closing(second))
        while not first.has_it(0.05):
            assert not first.is_behind
        assert not second.has_it()
        assert second.is_behind
