"""Columns as text: what Redis and PostgreSQL are given for every type."""

import json
from datetime import UTC, date, datetime
from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stores.errors import BadRecord
from stores.external.postgres.statements import array_literal
from stores.external.texts import json_objects_of, json_texts_of, texts_of

TIME = datetime(2024, 2, 29, 1, 2, 3, 4, tzinfo=UTC)
COLUMNS = {
    "text": (pa.array(['a"b\n', None]), 'a"b\n', 'a"b\n'),
    "whole": (pa.array([-5, None]), "-5", -5),
    "flag": (pa.array([True, None]), "true", True),
    "number": (pa.array([1.5, None]), "1.5", 1.5),
    "money": (pa.array([Decimal("1.50"), None], pa.decimal128(9, 2)), "1.50", "1.50"),
    "day": (pa.array([date(2024, 2, 29), None]), "2024-02-29", "2024-02-29"),
    "time": (pa.array([TIME, None], pa.timestamp("us", "UTC")), "2024-02-29T01:02:03.000004Z", None),
    "raw": (pa.array([b"\xff", None]), b"\xff", "/w=="),
    "object": (pa.array([{"a": [1, None]}, None]), '{"a": [1, null]}', {"a": [1, None]}),
    "map": (
        pa.array([[("k", 1)], None], pa.map_(pa.string(), pa.int32())),
        '{"k": 1}',
        {"k": 1},
    ),
}


def test_each_type_has_its_text_and_a_null_has_none() -> None:
    for name, (column, text, _) in COLUMNS.items():
        assert texts_of(column).to_pylist() == [text, None], name


def test_rows_are_json_objects() -> None:
    rows = pa.StructArray.from_arrays([column for column, _, _ in COLUMNS.values()], list(COLUMNS))
    first, second = (json.loads(f"{{{text}}}") for text in json_objects_of(rows).to_pylist())
    expected = {name: value for name, (_, _, value) in COLUMNS.items()}
    assert first == {**expected, "time": "2024-02-29T01:02:03.000004Z"}
    assert second == dict.fromkeys(COLUMNS)


def test_json_has_no_nan() -> None:
    rows = pa.StructArray.from_arrays([pa.array([float("nan"), float("inf")])], ["x"])
    assert json_objects_of(rows).to_pylist() == ['"x": null', '"x": null']
    assert texts_of(pa.array([[{"y": float("nan")}]])).to_pylist() == ['[{"y": null}]']


def test_an_empty_map_is_an_object_as_others_are() -> None:
    maps = pa.map_(pa.string(), pa.int32())
    assert texts_of(pa.array([[], [("k", 1)]], maps)).to_pylist() == ["{}", '{"k": 1}']
    assert texts_of(pa.array([[[]]], pa.list_(maps))).to_pylist() == ["[{}]"]


@pytest.mark.parametrize("kind", [pa.timestamp("us", "UTC"), pa.date32()], ids=str)
def test_a_time_inside_of_a_value_that_has_no_text_is_a_wrong_record_and_no_bug(kind: pa.DataType) -> None:
    beyond = pa.array([4_000_000 if pa.types.is_date(kind) else 2**58], pa.int32() if pa.types.is_date(kind) else None)
    column = pa.ListArray.from_arrays([0, 1], beyond.cast(kind))
    for spell in (texts_of, json_texts_of):
        with pytest.raises(BadRecord, match="not between the years 1 and 9999"):
            spell(column)


@given(st.lists(st.one_of(st.none(), st.text()), max_size=5))
def test_any_text_is_quoted_as_json_does(texts: list[str | None]) -> None:
    rows = pa.StructArray.from_arrays([pa.array(texts, pa.string())], ["x"])
    assert [json.loads(f"{{{text}}}")["x"] for text in json_objects_of(rows).to_pylist()] == texts


def test_the_literal_of_an_array_quotes_what_means_something_in_it() -> None:
    texts = pa.array(['a"b', "c\\d", "NULL", "", None, "{x,y}"])
    assert array_literal(texts) == '{"a\\"b","c\\\\d","NULL","",NULL,"{x,y}"}'
    assert array_literal(pa.array([b"\x00\xff", None])) == '{"\\\\x00ff",NULL}'
    assert array_literal(pa.array([], pa.string())) == "{}"
