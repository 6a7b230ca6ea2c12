"""Up to when a node has read all that there was."""

from enrich.tally import Node, NodeKind, Origins
from observe_service.verdicts.reached import Reached

NODE = Node("p", NodeKind.stage, "s")


def read(*ranges: tuple[int, int]) -> Origins:
    return Origins.of_ranges(("t", 0, first, following - 1) for first, following in ranges)


def test_it_is_the_last_look_of_which_all_is_read() -> None:
    reached = Reached()
    for at_ms, end in ((1, 0), (2, 5), (3, 9), (4, 9), (5, 9)):
        reached.look(NODE, ["t"], at_ms, {("t", 0): end, ("other", 0): 1_000})
    assert reached.until_ms(NODE, Origins(), 5) == 1
    assert reached.until_ms(NODE, read((0, 5)), 5) == 2
    assert reached.missing(NODE, read((0, 5), (6, 9))) == [("t", 0, 5, 5)]
    assert reached.until_ms(NODE, read((0, 5), (6, 9)), 5) == 2, "a hole is not read"
    assert reached.until_ms(NODE, read((0, 9)), 5) == 5
    assert reached.bases(NODE) == {("t", 0): 9}


def test_what_was_there_before_all_that_is_judged_need_not_be_read() -> None:
    reached = Reached()
    reached.begin(NODE, {("t", 0): 100})
    reached.look(NODE, ["t"], 1, {("t", 0): 100})
    assert reached.until_ms(NODE, Origins(), 1) == 1
    reached.look(NODE, ["t"], 2, {("t", 0): 101})
    assert reached.until_ms(NODE, Origins(), 2) == 1


def test_older_ends_take_nothing_back_of_what_was_read() -> None:
    """A broker that has just taken over may tell of fewer records than the one before it."""
    reached = Reached()
    reached.begin(NODE, {("t", 0): 100})
    reached.look(NODE, ["t"], 1, {("t", 0): 60})
    assert reached.until_ms(NODE, Origins(), 1) == 1
    assert reached.bases(NODE) == {("t", 0): 100}


def test_looks_of_a_node_that_is_hours_behind_take_bounded_memory() -> None:
    reached = Reached(most=100)
    for at_ms in range(1, 10_000):
        reached.look(NODE, ["t"], at_ms, {("t", 0): at_ms})
    assert len(reached._looks[NODE]) <= 101
    assert reached._looks[NODE][-1][0] == 9_999
    many = Reached()
    for at_ms in range(1, 200):
        many.look(NODE, ["t"], at_ms, {("t", partition): at_ms for partition in range(10_000)})
    assert len(many._looks[NODE]) <= 61


def test_a_topic_that_is_made_again_or_deleted_holds_nobody_up_and_nothing_of_it_is_read() -> None:
    reached = Reached()
    reached.look(NODE, ["t", "u"], 1, {("t", 0): 500, ("u", 0): 2_000})
    assert reached.until_ms(NODE, read((0, 500)), 1) == 0
    reached.look(NODE, ["t"], 2, {("t", 0): 500})
    assert reached.until_ms(NODE, read((0, 500)), 2) == 2, "`u` is deleted"
    reached.forget_topic("t")
    reached.look(NODE, ["t"], 3, {("t", 0): 40})
    assert reached.until_ms(NODE, Origins(), 3) == 2, "`t` is made again"
    assert reached.until_ms(NODE, read((0, 40)), 3) == 3
