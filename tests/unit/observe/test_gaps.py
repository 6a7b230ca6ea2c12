"""Where a node has read nothing: which of it is looked into."""

from enrich.tally import Origins
from observe_service.verdicts.reached import worth_a_look


def test_what_a_node_has_passed_by_is_looked_into_part_by_part_however_much_it_is():
    reads = Origins.of_ranges([("in", 0, 0, 99), ("in", 0, 50_000, 50_009)])
    hole = ("in", 0, 100, 49_999)
    assert worth_a_look([hole], reads) == [("in", 0, 100, 20_099)]
    assert worth_a_look([("in", 0, 49_000, 49_999)], reads) == [("in", 0, 49_000, 49_999)]
    both = [("in", 0, 100, 15_000), ("in", 0, 16_000, 40_000)]
    assert worth_a_look(both, reads) == [("in", 0, 100, 15_000), ("in", 0, 16_000, 16_000 + 20_000 - 14_901 - 1)]


def test_what_it_has_not_come_to_yet_is_looked_into_only_if_it_is_little():
    reads = Origins.of_ranges([("in", 0, 0, 99)])
    assert worth_a_look([("in", 0, 100, 1_099)], reads) == [("in", 0, 100, 1_099)]
    assert worth_a_look([("in", 0, 100, 1_100)], reads) == []
    assert worth_a_look([("in", 1, 0, 10_000)], reads) == []
