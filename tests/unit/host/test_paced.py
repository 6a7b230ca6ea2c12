"""Tasks begin as often as the rate allows, in few threads, and not during a pause."""

import threading

import pytest

from enrich.host.on_demand.paced import Paced, Rank
from tests.support.waiting import wait_until


class Seconds:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def test_tasks_begin_in_the_order_in_which_they_are_due() -> None:
    done: list[str] = []
    paced = Paced(1, 1_000)
    hold = threading.Event()
    paced.submit(lambda: hold.wait(60))
    paced.submit(lambda: done.append("late"), 0.01)
    paced.submit(lambda: done.append("first"))
    paced.submit(lambda: done.append("second"))
    hold.set()
    wait_until(lambda: len(done) == 3, what="all tasks")
    assert done == ["first", "second", "late"]
    paced.close(60)


def test_of_those_that_are_due_the_needed_begin_first_and_then_missing_and_old_ones_in_turns() -> None:
    done: list[str] = []
    paced, hold = Paced(1, 1_000), threading.Event()
    paced.submit(lambda: hold.wait(60), 0.0, Rank.NEEDED)
    wait_until(lambda: not paced.waiting, what="its begin")
    for _ in range(3):
        paced.submit(lambda: done.append("missing"), 0.0, Rank.MISSING)
    for _ in range(2):
        paced.submit(lambda: done.append("old"), 0.0, Rank.OLD)
        paced.submit(lambda: done.append("needed"), 0.0, Rank.NEEDED)
    hold.set()
    wait_until(lambda: not paced.waiting and len(done) == 7, what="all tasks")
    assert done == ["needed", "needed", "missing", "old", "missing", "old", "missing"]
    paced.close(60)


def test_what_is_needed_meanwhile_has_another_turn() -> None:
    done: list[str] = []
    paced, hold = Paced(1, 1_000), threading.Event()
    paced.submit(lambda: hold.wait(60))
    wait_until(lambda: not paced.waiting, what="its begin")
    paced.submit(lambda: done.append("old"))
    missing = paced.submit(lambda: done.append("missing"), 0.0, Rank.MISSING)
    late = paced.submit(lambda: done.append("late"), 1_000.0, Rank.MISSING)
    paced.submit(lambda: done.append("needed"), 0.0, Rank.NEEDED)
    assert paced.sooner(late, Rank.NEEDED) is not late
    assert paced.sooner(late, Rank.NEEDED) is late, "it has another turn"
    assert paced.waiting == 4
    hold.set()
    wait_until(lambda: len(done) == 4, what="all tasks")
    assert done == ["needed", "late", "missing", "old"]
    assert paced.sooner(missing, Rank.NEEDED) is missing, "it has begun"
    assert paced.waiting == 0
    paced.close(60)


def test_no_more_than_so_many_are_under_way() -> None:
    paced, hold, began = Paced(3, 10_000), threading.Event(), threading.Semaphore(0)

    def task() -> None:
        began.release()
        hold.wait(60)

    for _ in range(10):
        paced.submit(task)
    for _ in range(3):
        assert began.acquire(timeout=60)
    assert paced.waiting == 7
    hold.set()
    for _ in range(7):
        assert began.acquire(timeout=60)
    paced.close(60)


def test_a_burst_after_a_rest_is_taken_by_all_threads() -> None:
    paced, hold, began = Paced(3, 10_000), threading.Event(), threading.Semaphore(0)
    paced.submit(began.release)
    assert began.acquire(timeout=60)

    def task() -> None:
        began.release()
        hold.wait(60)

    wait_until(lambda: paced._idle == 1, what="rest")
    with paced._changed:  # so that the one that rests cannot take any before all are there
        for _ in range(3):
            paced.submit(task)
    for _ in range(3):
        assert began.acquire(timeout=60)
    hold.set()
    paced.close(60)


def test_a_second_has_no_more_than_its_rate() -> None:
    clock, done = Seconds(), []
    paced = Paced(1, 10, clock=clock)
    for number in range(50):
        paced.submit(lambda number=number: done.append(number))  # type: ignore[misc] # a default binds it
    # What a tenth of a second is worth begins at once, and the next one.
    wait_until(lambda: len(done) == 2, what="the first tasks")
    assert paced.waiting == 48
    clock.now += 0.5
    paced.pause(0)
    paced.submit(lambda: None, 1_000)  # wakes it
    wait_until(lambda: len(done) >= 4, what="the next tasks")
    paced.close(60)


def test_a_pause_holds_all() -> None:
    clock, done = Seconds(), []
    paced = Paced(2, 10, clock=clock)
    paced.pause(5)
    paced.submit(lambda: done.append(1))
    assert paced.waiting == 1
    clock.now += 5
    paced.submit(lambda: done.append(2))
    wait_until(lambda: len(done) == 2, what="the tasks")
    paced.close(60)


def test_nothing_begins_while_what_came_has_no_room() -> None:
    done: list[str] = []
    asked, is_full = 0, True

    def full() -> bool:
        nonlocal asked
        asked += 1
        return is_full

    paced = Paced(2, 1_000, is_full=full)
    paced.submit(lambda: done.append("a task"), rank=Rank.NEEDED)
    wait_until(lambda: asked >= 3, what="several looks")
    assert done == []
    is_full = False
    wait_until(lambda: bool(done), what="the task")
    paced.close(60)


def test_once_closed_it_takes_nothing() -> None:
    paced = Paced(1, 10)
    paced.pause(60)
    paced.submit(lambda: None)
    paced.close(60)
    assert paced.waiting == 0
    with pytest.raises(RuntimeError):
        paced.submit(lambda: None)
