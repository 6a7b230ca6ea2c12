"""What is settled above an offset fits beside it, however scattered it is."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from enrich.delivery.partitions.positions import Committed
from enrich.delivery.partitions.ranges import packed, unpacked
from tests.support.seed import random_source

MOST_BYTES = 4096
"""Of what brokers keep beside an offset."""

RANGES = st.lists(st.tuples(st.integers(1, 2**40), st.integers(0, 2**20)), max_size=50)


@given(RANGES)
def test_what_is_packed_comes_out_as_it_was(gaps: list[tuple[int, int]]) -> None:
    ranges, position = [], 0
    for gap, length in gaps:
        ranges.append((position + gap, position + gap + length))
        position = ranges[-1][1]
    assert unpacked(packed(ranges)) == ranges


@pytest.mark.parametrize("share", [0.02, 0.1, 0.5, 0.9])
def test_of_a_full_window_nearly_all_that_is_settled_is_known(share: float) -> None:
    source = random_source(f"ranges {share}")
    offsets = [offset for offset in range(10**15, 10**15 + 20_000) if source.random() < share]
    ranges: list[tuple[int, int]] = []
    for offset in offsets:
        if ranges and ranges[-1][1] == offset - 1:
            ranges[-1] = ranges[-1][0], offset
        else:
            ranges.append((offset, offset))
    text = Committed(0, "", (), "", 1, tuple(ranges)).to_text()
    assert len(text) < MOST_BYTES
    known = Committed.from_text(text)
    assert known is not None
    assert known.done == tuple(ranges[: len(known.done)])
    assert sum(last - first + 1 for first, last in known.done) > 0.7 * len(offsets)


@pytest.mark.parametrize("text", ["x", "~~~~~~", "}"])
def test_what_is_no_such_text_is_taken_for_that_of_another_program(text: str) -> None:
    assert Committed.from_text(f'[0, "", [], "", 1, "{text}"]') is None
