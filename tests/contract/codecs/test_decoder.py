"""What every decoder promises, whatever its format."""

import random

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.contract.codecs.decoders import CASES, PAYLOAD

# One value goes the strict way alone, hundreds go the fast way together, and 10,000 make more than one batch.
SIZES = (1, 5, 200, 10_000)


@pytest.fixture(scope="module", params=list(CASES.values()), ids=list(CASES))
def case(request):
    return request.param()


def mixed(case, size, seed=1):
    """Good, bad and null values in any order, the rows that the good ones are, and where the bad ones stand."""
    source = random.Random(seed)
    pool = [*case.good * 8, *((value, None) for value in case.bad), (None, None)]
    drawn = [source.choice(pool) for _ in range(size)]
    bad = {index for index, (value, row) in enumerate(drawn) if value is not None and row is None}
    return [value for value, _ in drawn], [row for _, row in drawn], bad


def check(decoded, rows, bad):
    decoded.rows.validate(full=True)
    assert decoded.rows.to_pylist() == rows
    assert set(decoded.bad) == bad


@pytest.mark.parametrize("size", SIZES)
def test_good_values_are_their_rows(case, size):
    values = [case.good[index % len(case.good)] for index in range(size)]
    decoded = case.decoder.decode(pa.array([value for value, _ in values], pa.binary()))
    check(decoded, [row for _, row in values], set())


@pytest.mark.parametrize("size", SIZES)
def test_a_bad_value_leaves_its_neighbours_right(case, size):
    values, rows, bad = mixed(case, size)
    check(case.decoder.decode(pa.array(values, pa.binary())), rows, bad)


@pytest.mark.parametrize("size", [1, 200])
def test_one_bad_value_among_good_ones_is_the_only_bad_one(case, size):
    for value in case.bad:
        for place in {0, size // 2, size - 1}:
            values = [case.good[0][0]] * size
            rows = [case.good[0][1]] * size
            values[place], rows[place] = value, None
            check(case.decoder.decode(pa.array(values, pa.binary())), rows, {place})


@pytest.mark.parametrize("size", [1, 100, 10_000])
def test_nulls_are_null_rows_and_not_bad(case, size):
    check(case.decoder.decode(pa.nulls(size, pa.binary())), [None] * size, set())


@pytest.mark.parametrize("values", [pa.array([], pa.binary()), pa.chunked_array([], pa.binary())])
def test_no_values_are_no_rows_of_the_right_type(case, values):
    decoded = case.decoder.decode(values)
    assert decoded.rows.type == pa.struct(list(case.columns))
    assert len(decoded.rows) == 0
    assert decoded.bad == {}


@pytest.mark.parametrize("size", [1, 200])
def test_rows_have_the_type_of_the_columns(case, size):
    for values in ([case.good[0][0]], [None], [*case.bad, case.good[0][0]]):
        decoded = case.decoder.decode(pa.array(values * size, pa.binary()))
        assert decoded.rows.type == pa.struct(list(case.columns))


def test_reasons_do_not_quote_the_value(case):
    for size in (1, 100):
        decoded = case.decoder.decode(pa.array([*case.bad] * size, pa.binary()))
        assert len(decoded.bad) == len(case.bad) * size
        for reason in decoded.bad.values():
            assert reason
            assert PAYLOAD not in reason
            assert PAYLOAD[:6] not in reason
            assert reason.encode()  # it can be written


@pytest.mark.parametrize("start", [0, 1, 3, 90])
def test_a_slice_is_decoded_like_a_copy(case, start):
    values, rows, bad = mixed(case, 300)
    decoded = case.decoder.decode(pa.array(values, pa.binary()).slice(start, 150))
    check(decoded, rows[start : start + 150], {index - start for index in bad if start <= index < start + 150})


@pytest.mark.parametrize("kind", [pa.large_binary(), pa.binary_view()])
def test_the_other_arrays_of_bytes_are_decoded_too(case, kind):
    values, rows, bad = mixed(case, 300)
    check(case.decoder.decode(pa.array(values, kind)), rows, bad)


def test_chunks_are_put_one_after_the_other(case):
    values, rows, bad = mixed(case, 400)
    parts = (values[:1], values[1:1], values[1:150], values[150:])
    chunks = pa.chunked_array([pa.array(part, pa.binary()) for part in parts])
    check(case.decoder.decode(chunks), rows, bad)


def test_nulls_that_cover_bytes_are_null(case):
    values = pa.array([case.good[0][0]] * 100, pa.binary())
    covered = pa.array([index % 3 == 0 for index in range(100)])
    _, offsets, data = values.buffers()
    validity = pa.array([None if hide.as_py() else True for hide in covered], pa.bool_()).buffers()[0]
    hidden = pa.BinaryArray.from_buffers(pa.binary(), 100, [validity, offsets, data])
    expected = [None if index % 3 == 0 else case.good[0][1] for index in range(100)]
    check(case.decoder.decode(hidden), expected, set())


@pytest.mark.parametrize("name", CASES)
@given(pool=st.lists(st.binary(max_size=40) | st.none(), min_size=1, max_size=4), times=st.sampled_from([1, 40]))
def test_any_bytes_become_a_row_or_a_reason(name, pool, times):
    case = CASES[name]()
    values = pool * times
    decoded = case.decoder.decode(pa.array(values, pa.binary()))
    decoded.rows.validate(full=True)
    assert len(decoded.rows) == len(values)
    rows = decoded.rows.to_pylist()
    for index, value in enumerate(values):
        assert (rows[index] is None) == (value is None or index in decoded.bad)
        assert value is not None or index not in decoded.bad
