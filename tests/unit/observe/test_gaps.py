"""Where a node has reported nothing: which of it is looked into, and when."""

from enrich.tally import Node, NodeKind, Origins
from enrich.tally.origins import Range
from observe_service.verdicts.gaps import Gaps
from observe_service.verdicts.reached import Reached

NODE = Node("p", NodeKind.stage, "s")


def reached(end: int) -> Reached:
    made = Reached()
    made.look(NODE, ["in"], 1_000, {("in", 0): end})
    return made


def ranges(*some: tuple[int, int]) -> list[Range]:
    return [("in", 0, first, last) for first, last in some]


def due_at_once(end: int, *reads: tuple[int, int]) -> list[Range]:
    return [*Gaps().due(NODE, reached(end), Origins.of_ranges(ranges(*reads)), 0.0)]


def test_what_a_node_has_passed_by_is_looked_into_part_by_part_however_much_it_is() -> None:
    assert due_at_once(50_010, (0, 99), (50_000, 50_009)) == ranges((100, 20_099))
    assert due_at_once(50_010, (0, 48_999), (50_000, 50_009)) == ranges((49_000, 49_999))
    both = due_at_once(50_010, (0, 99), (15_001, 15_999), (40_001, 50_009))
    assert both == ranges((100, 15_000), (16_000, 16_000 + 20_000 - 14_901 - 1))
    assert due_at_once(10, (0, 9)) == []


def test_what_it_has_not_come_to_yet_is_looked_into_only_if_it_stays() -> None:
    for end in 1_100, 50_000:
        gaps, known, reads = Gaps(), reached(end), Origins.of_ranges(ranges((0, 99)))
        assert gaps.due(NODE, known, reads, 0.0) == gaps.due(NODE, known, reads, 4.9) == []
        assert gaps.due(NODE, known, reads, 5.1) == ranges((100, end - 1))
        assert gaps.due(NODE, known, reads, 6.0) == []


def test_much_that_it_has_not_come_to_yet_is_looked_into_once_if_there_are_records() -> None:
    gaps, known, reads = Gaps(), reached(50_000), Origins.of_ranges(ranges((0, 99)))
    assert gaps.due(NODE, known, reads, 0.0) == []
    assert gaps.due(NODE, known, reads, 5.1) == ranges((100, 49_999))
    gaps.looked(NODE, known, Origins.of_ranges(ranges((100, 1_099))))
    assert gaps.due(NODE, known, reads, 10.2) == gaps.due(NODE, known, reads, 20.2) == []
    reads |= Origins.of_ranges(ranges((100, 1_099)))
    assert gaps.due(NODE, known, reads, 26.0) == ranges((1_100, 49_999))


def test_records_that_a_node_has_passed_by_are_looked_for_once() -> None:
    gaps, known, reads = Gaps(), reached(100), Origins.of_ranges(ranges((0, 9), (20, 99)))
    assert gaps.due(NODE, known, reads, 0.0) == ranges((10, 19))
    gaps.looked(NODE, known, Origins.of_ranges(ranges((12, 19))))
    reads |= Origins.of_ranges(ranges((10, 11)))
    assert gaps.due(NODE, known, reads, 1.0) == []


def test_behind_a_stage_that_writes_in_transactions_a_node_is_not_further_behind_from_minute_to_minute() -> None:
    """Twenty a second, each with a marker, which is a hole."""
    gaps, known, reads, end = Gaps(), Reached(), Origins(), 0
    for second in range(1, 301):
        for _ in range(20):
            reads |= Origins.of_ranges(ranges((end, end + 9)))
            end += 11
        known.look(NODE, ["in"], second * 1_000, {("in", 0): end})
        assert known.until_ms(NODE, reads, second * 1_000) >= (second - 8) * 1_000
        reads |= Origins.of_ranges(gaps.due(NODE, known, reads, float(second)))
    assert not known.torn
