"""Origins are what plain sets of places are."""

from hypothesis import given
from hypothesis import strategies as st

from enrich.tally import Origins
from enrich.tally.origins import text
from tests.support.observe.tallies import origins_of, triples


def plain(origins: Origins) -> set[tuple[tuple[str, int], int]]:
    return {((t, p), offset) for t, p, first, last in origins.ranges() for offset in range(first, last + 1)}


@given(triples, triples)
def test_they_are_joined_cut_and_taken_away_as_plain_sets_are(one, other):
    a, b = origins_of(one), origins_of(other)
    assert plain(a | b) == one | other
    assert plain(a & b) == one & other
    assert plain(a - b) == one - other
    assert (len(a), bool(a), a == b) == (len(one), bool(one), one == other)
    assert all((*place, offset) in a for place, offset in one)
    assert not any((*place, offset) in a for place, offset in other - one)
    assert plain(a) == one, "joining changed what it was given"


@given(triples, triples, triples)
def test_joining_has_no_order_and_may_be_repeated(one, two, three):
    a, b, c = map(origins_of, (one, two, three))
    assert a | b == b | a
    assert (a | b) | c == a | (b | c)
    assert a | a == a


@given(st.lists(st.tuples(st.integers(0, 5_000_000), st.integers(1, 2_000_000)), max_size=8), st.integers(0, 3))
def test_ranges_are_whole_in_order_and_apart(ranges, most):
    origins = Origins.of_ranges(("t", 0, first, first + length - 1) for first, length in ranges)
    expected: list[tuple[int, int]] = []
    for first, length in sorted(ranges):
        last = first + length - 1
        if expected and first <= expected[-1][1] + 1:
            expected[-1] = (expected[-1][0], max(expected[-1][1], last))
        else:
            expected.append((first, last))
    found = [(first, last) for _, _, first, last in origins.ranges()]
    assert found == expected
    assert [(first, last) for _, _, first, last in origins.ranges(most)] == expected[:most]


def test_a_range_takes_a_few_bytes_however_long_it_is():
    whole = Origins.of_ranges([("t", 0, 10**12, 10**12 + 10**8 - 1)])
    assert len(whole) == 10**8
    assert list(whole.ranges()) == [("t", 0, 10**12, 10**12 + 10**8 - 1)]


def test_ranges_are_named_as_people_read_them():
    assert [text(("t", 1, 2, 3)), text(("t", 1, 2, 2))] == ["t/1/2-3", "t/1/2"]
