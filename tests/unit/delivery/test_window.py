"""An offset is committed once nothing below it is under way, and never before."""

import random

from enrich.delivery.partitions.positions import Marks, Partition
from enrich.delivery.partitions.window import Window


def test_a_record_under_way_keeps_the_position_where_it_is():
    window = Window(5)
    for offset in (5, 6, 9):
        window.take(offset, 10)
    window.settle([6, 9])
    assert (window.position, window.oldest, len(window), window.size) == (5, 5, 3, 30)
    window.settle([5])
    assert (window.position, window.oldest, len(window), window.size) == (10, None, 0, 0)
    window.settle([5, 9, 77])
    assert window.position == 10


def test_what_holds_no_record_is_passed_only_while_nothing_is_under_way():
    window = Window(0)
    window.read_to(7)
    assert window.position == 7
    window.take(8, 1)
    window.read_to(20)
    assert window.position == 7
    window.settle([8])
    window.read_to(20)
    assert window.position == 20


def test_in_any_order_the_position_is_the_first_that_is_not_settled():
    source = random.Random(3)
    for _ in range(200):
        window, offsets = Window(0), sorted(source.sample(range(200), 60))
        under_way: list[int] = []
        waiting, settled = list(offsets), set()
        while waiting or under_way:
            if waiting and (not under_way or source.random() < 0.5):
                offset = waiting.pop(0)
                window.take(offset, 1)
                under_way.append(offset)
            else:
                some = source.sample(under_way, min(len(under_way), source.randint(1, 4)))
                window.settle(some)
                settled.update(some)
                under_way = [offset for offset in under_way if offset not in some]
            open_ = [offset for offset in offsets if offset not in settled and offset not in waiting]
            below = [offset for offset in settled if not open_ or offset < open_[0]]
            assert window.position == (max(below) + 1 if below else 0)
            assert len(window) == window.size == len([o for o in offsets if o >= window.position and o not in waiting])


def test_what_was_settled_above_the_position_is_not_delivered_again_by_the_next_owner():
    first = Window(0)
    for offset in range(10):
        first.take(offset, 1)
    first.settle([0, 2, 3, 7])
    assert (first.position, first.settled_beyond()) == (1, ((2, 3), (7, 7)))
    second = Window(first.position, first.settled_beyond())
    assert [offset for offset in range(1, 6) if second.take(offset, 1)] == [1, 4, 5]
    assert second.settled_beyond() == ((2, 3), (7, 7))
    second.settle([1])
    assert second.position == 4
    assert [offset for offset in range(6, 10) if second.take(offset, 1)] == [6, 8, 9]
    second.settle(range(10))
    assert (second.position, second.settled_beyond()) == (10, ())


def test_what_the_last_owner_settled_above_its_offset_is_kept_until_it_is_read():
    partition = Partition("events", 0, 5, Marks(0), committed=5)
    partition.done = ((7, 8),)
    assert list(partition.settled_beyond) == [(7, 8)]  # a commit before the first record must not forget it
    window = partition.window = Window(partition.position, partition.done)
    assert [window.take(offset, 1) for offset in (5, 6, 7)] == [True, True, False]
    assert list(partition.settled_beyond) == [(7, 7), (8, 8)]
