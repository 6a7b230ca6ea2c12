"""What is seen of JSON values in all bytes at once, against looking at each."""

import json

import pyarrow as pa
from hypothesis import example, given
from hypothesis import strategies as st

from enrich.codecs.json.shape import depths, trimmed
from tests.property.codecs.json_values import documents

SPACE = b" \t\r\n"
spaces = st.text(" \t\r\n", max_size=3).map(str.encode)
loose = st.tuples(spaces, st.binary(max_size=6), spaces).map(b"".join)
nested = st.recursive(
    st.sampled_from(["", '"', "[]}", '\\"]', "\\", "{"]) | st.integers(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(['"{', "[", "\\"]), inner, max_size=2),
)


def among_others(values):
    """As a part of a larger array, as slices of Spark's batches are."""
    return pa.array([b'"', *values, b" {"], pa.binary()).slice(1, len(values))


@given(st.lists(loose | documents | st.none(), min_size=1, max_size=6))
@example([b"", b"  ", None, b" a"])
def test_values_are_trimmed_of_white_space(values):
    found = trimmed(among_others(values)).to_pylist()
    assert found == [None if value is None else value.strip(SPACE) for value in values]


def test_very_much_space_is_left_for_the_parser():
    value = b"{}" + b" " * 10**6
    (found,) = trimmed(pa.array([value], pa.binary())).to_pylist()
    assert value.startswith(found)
    assert found.startswith(b"{}")


def depth(value):
    if isinstance(value, dict | list):
        return 1 + max(map(depth, value.values() if isinstance(value, dict) else value), default=0)
    return 0


@given(st.lists(st.tuples(nested, documents), min_size=1, max_size=4))
@example([("{", b"\\")])
def test_depths_are_right_also_behind_values_that_are_no_json(drawn):
    values = [each for value, other in drawn for each in (other, json.dumps(value).encode())]
    found = depths(among_others(values)).tolist()
    assert found[1::2] == [depth(value) for value, _ in drawn]
