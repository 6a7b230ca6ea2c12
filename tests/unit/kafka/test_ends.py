"""Which partitions are asked for their ends together."""

from enrich.kafka import ends
from enrich.kafka.ends import UNKNOWN, _pieces


def test_partitions_of_one_leader_are_asked_together_and_not_too_many_at_once(monkeypatch):
    monkeypatch.setattr(ends, "_AT_ONCE", 4)
    topics = {"a": [0, 1, 2], "b": [0, 1, 2]}
    leaders = {"a": [1, 2, 1], "b": [2, 1]}  # of b's last partition nobody knows it yet
    pieces = [[(each.topic, each.partition) for each in piece] for piece in _pieces(topics, leaders)]
    assert pieces == [[("b", 2), ("a", 0), ("a", 2), ("b", 1)], [("a", 1), ("b", 0)]]


def test_without_leaders_all_are_asked_all_the_same():
    (piece,) = _pieces({"a": [0, 1], "b": [5]}, UNKNOWN)
    assert [(each.topic, each.partition) for each in piece] == [("a", 0), ("a", 1), ("b", 5)]
    assert _pieces({}, UNKNOWN) == []
