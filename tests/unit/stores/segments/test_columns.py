"""Columns of every type come out of a segment as they went in, whatever pieces they were written in."""

import datetime
import decimal
import io

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stores.segments.loops.columns import new_column, open_column

DAY = datetime.date(2026, 11, 21)
ARRAYS = [
    pa.array(["a", None, "exactly 12 ..", "thirteen ....", "", "é" * 30, "twelve chars"]),
    pa.array([b"", None, b"\x00\xff", b"x" * 100], pa.binary()),
    pa.array(["large", None], pa.large_string()),
    pa.array([1, None, 3], pa.int32()),
    pa.array([True, None, False] * 5),
    pa.array([1.5, None], pa.float64()),
    pa.array([DAY, None]),
    pa.array([decimal.Decimal("1.23"), None], pa.decimal128(38, 2)),
    pa.array([datetime.datetime(2026, 1, 1), None], pa.timestamp("us", tz="UTC")),
    pa.array([None, None]),
    pa.array([[1, None], None, [], [3]], pa.list_(pa.int16())),
    pa.array([[[["a"], None], []], None, [[["b" * 20]]]]),
    pa.array([{"a": 1, "b": ["x", None]}, None, {"a": None, "b": None}]),
    pa.array(
        [[("k", {"z": 1}), ("l", None)], None, [], [("m", {"z": None})]],
        pa.map_(pa.string(), pa.struct([("z", pa.int8())])),
    ),
]


def through_a_segment(kind: pa.DataType, pieces: list[pa.Array]):
    streams: list[io.BytesIO] = []

    def new_stream() -> io.BytesIO:
        streams.append(io.BytesIO())
        return streams[-1]

    writer = new_column(kind, new_stream)
    for piece in pieces:
        writer.write(piece)
    writer.finish()
    rows = sum(len(piece) for piece in pieces)
    return open_column(kind, rows, iter([np.frombuffer(stream.getvalue(), np.uint8) for stream in streams]))


@pytest.mark.parametrize("array", ARRAYS, ids=lambda array: str(array.type))
def test_a_column_of_any_type_comes_out_as_it_went_in(array):
    pieces = [array.slice(1), array.slice(0, 0), array, array.slice(1, 1), array.take(pa.array([0, None]))]
    written = [value for piece in pieces for value in piece.to_pylist()]
    column = through_a_segment(array.type, pieces)
    rows = np.array([len(written) - 1, -1, 0, *range(len(written))])
    taken = column.take(rows)
    taken.validate(full=True)
    assert taken.type == array.type
    assert taken.to_pylist() == [None if row < 0 else written[row] for row in rows]
    assert column.take(rows[:0]).to_pylist() == []
    again = through_a_segment(array.type, [taken, column.take(np.arange(len(written)))])
    assert again.take(np.arange(len(rows) + len(written))).to_pylist() == taken.to_pylist() + written


@given(st.lists(st.none() | st.text(max_size=30), max_size=40), st.data())
def test_text_of_any_length_comes_out_as_it_went_in(values, data):
    column = through_a_segment(pa.string(), [pa.array(values[:7], pa.string()), pa.array(values[7:], pa.string())])
    rows = data.draw(st.lists(st.integers(-1, len(values) - 1), max_size=30))
    taken = column.take(np.array(rows, np.int64))
    taken.validate(full=True)
    assert taken.to_pylist() == [None if row < 0 else values[row] for row in rows]


def test_text_that_points_beyond_its_end_is_refused():
    records = np.array([100 | (1 << 32), 50], np.uint64).view(np.uint8)
    column = open_column(pa.string(), 1, iter([records, np.zeros(120, np.uint8)]))
    with pytest.raises(IndexError):
        column.take(np.array([0]))


OFFSETS = {
    "back": [0, 3, 1, 4],
    "negative": [0, -1, 2, 4],
    "beyond the end": [0, 1 << 30, 1 << 30, 4],
    "ends beyond the end": [0, 1, 2, 1 << 30],
    "not from the beginning": [1, 1, 2, 4],
}


@pytest.mark.parametrize("level", ["lists", "texts in lists"])
@pytest.mark.parametrize("offsets", OFFSETS.values(), ids=OFFSETS)
def test_offsets_that_are_not_in_order_are_refused_before_anything_is_taken(offsets, level):
    lists, texts = (offsets, [0, 1, 2, 3, 4]) if level == "lists" else ([0, 1, 2, 3], offsets)
    flags, text = np.full(1, 0xFF, np.uint8), np.frombuffer(b"abcd", np.uint8)
    sections = [flags, np.array(lists), flags, np.array(texts), text]
    with pytest.raises(IndexError):
        open_column(pa.list_(pa.string()), 3, iter([section.view(np.uint8) for section in sections]))
