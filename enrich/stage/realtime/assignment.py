"""Which slot reads which partitions."""

from collections.abc import Mapping, Sequence

Partition = tuple[str, int]
"""Topic and number."""


def each_partition(partitions: Mapping[str, Sequence[int]]) -> list[Partition]:
    """Those of all topics."""
    return [(topic, number) for topic, numbers in partitions.items() for number in numbers]


def assigned(partitions: Mapping[str, Sequence[int]], slots: int) -> list[list[Partition]]:
    """The partitions of each slot: of each topic each slot has as many as the others, give or take one."""
    each = sorted(each_partition(partitions))
    return [each[slot::slots] for slot in range(slots)]


def transactional_id(group: str, slot: int) -> str:
    """By which a slot fences those that had its number before."""
    return f"{group}.slot-{slot}"
