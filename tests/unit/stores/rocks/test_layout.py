from hypothesis import given
from hypothesis import strategies as st

from stores.rocks.layout import Entry, decode, encode, end_of, escaped, position

LONGS = st.integers(-(2**63), 2**63 - 1)
ENTRIES = st.builds(
    Entry, LONGS, st.integers(0, 2**31 - 1), st.integers(0, 2**63 - 1), LONGS, st.integers(0, 7), st.binary()
)
KEYS = st.lists(st.sampled_from([b"\0", b"\1", b"a", b"\xff"]), max_size=5).map(b"".join)


@given(entries=st.lists(ENTRIES, min_size=1, max_size=3))
def test_a_row_gives_back_its_entries(entries):
    assert decode(encode(entries)) == entries


@given(a=KEYS, b=KEYS, suffixes=st.tuples(st.binary(max_size=3), st.binary(max_size=3)))
def test_escaped_keys_keep_their_order_and_none_begins_another(a, b, suffixes):
    if a == b:
        return
    assert not escaped(a).startswith(escaped(b))
    assert (a < b) == (escaped(a) + suffixes[0] < escaped(b) + suffixes[1])


@given(a=LONGS, b=LONGS)
def test_positions_are_in_the_order_of_time_also_before_the_epoch(a, b):
    assert (position(a, 1, 1) < position(b, 1, 1)) == (a < b)


@given(start=st.binary(min_size=1).filter(lambda key: key[0] != 0xFF), rest=st.binary())
def test_the_end_of_a_prefix_is_beyond_all_that_begin_with_it(start, rest):
    assert start + rest < end_of(start)
    assert not end_of(start).startswith(start)
