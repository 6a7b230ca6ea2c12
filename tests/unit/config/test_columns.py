"""Column lists: what they mean in Arrow, and errors that point at the character."""

import pyarrow as pa
import pytest

from enrich.config.messages.words import Wrong
from enrich.config.types.columns import Columns, parse_columns

MEANINGS = [
    ("plan string, region string", [("plan", pa.string()), ("region", pa.string())]),
    ("limits struct<rps:int,burst:int>", [("limits", pa.struct([("rps", pa.int32()), ("burst", pa.int32())]))]),
    ("a: tinyint,b :smallint , c:bigint", [("a", pa.int8()), ("b", pa.int16()), ("c", pa.int64())]),
    ("A BYTE, b Long, c integer, d short", [("A", pa.int8()), ("b", pa.int64()), ("c", pa.int32()), ("d", pa.int16())]),
    ("a float, b real, c double", [("a", pa.float32()), ("b", pa.float32()), ("c", pa.float64())]),
    ("a boolean, b binary", [("a", pa.bool_()), ("b", pa.binary())]),
    ("a date, b timestamp", [("a", pa.date32()), ("b", pa.timestamp("us", tz="UTC"))]),
    ("a decimal(10, 2), b dec(5), c numeric", [
        ("a", pa.decimal128(10, 2)), ("b", pa.decimal128(5, 0)), ("c", pa.decimal128(10, 0)),
    ]),
    ("a array<map<string,array<int>>>", [("a", pa.list_(pa.map_(pa.string(), pa.list_(pa.int32()))))]),
    ("`two words` int, `tick``s` int, `date` date", [
        ("two words", pa.int32()), ("tick`s", pa.int32()), ("date", pa.date32()),
    ]),
    ("s struct<x string,`y z`:struct<w:int>>", [
        ("s", pa.struct([("x", pa.string()), ("y z", pa.struct([("w", pa.int32())]))])),
    ]),
    ("größe int, 日本 string, 1st int, not int", [
        ("größe", pa.int32()), ("日本", pa.string()), ("1st", pa.int32()), ("not", pa.int32()),
    ]),
]  # fmt: skip


@pytest.mark.parametrize(("text", "fields"), MEANINGS)
def test_a_column_list_means_an_arrow_schema(text: str, fields: list[tuple[str, pa.DataType]]) -> None:
    assert parse_columns(text).arrow == pa.schema(fields)


def test_not_null_is_kept_at_every_depth() -> None:
    columns = parse_columns("a int not null, s struct<x:int NOT NULL, y:int>  NOT  NULL, t string")
    inner = pa.struct([pa.field("x", pa.int32(), nullable=False), pa.field("y", pa.int32())])
    assert columns.arrow == pa.schema(
        [
            pa.field("a", pa.int32(), nullable=False),
            pa.field("s", inner, nullable=False),
            pa.field("t", pa.string()),
        ]
    )


WRONG = [
    ("", 1, "expected a column name, got the end"),
    ("plan", 5, "expected plan TYPE, but there is no type"),
    ("plan:", 6, "expected a type, got the end"),
    ("plan strng", 6, "unknown type strng"),
    ("plan string,", 13, "expected a column name, got the end"),
    ("plan string region string", 13, "expected a comma or the end, got region"),
    ("a int,, b int", 7, "expected a column name, got ,"),
    ("limits struct<rps:int", 22, "expected > to close struct<, got the end"),
    ("limits struct<>", 15, "expected a column name, got >"),
    ("a array<int", 12, "expected > to close array<, got the end"),
    ("a array", 8, "expected < after array, got the end"),
    ("a map<string>", 13, "expected , between the types of keys and values, got >"),
    ("a decimal(39)", 11, "expected 1 to 38 digits, got 39"),
    ("a decimal(5,6)", 13, "expected 0 to 5 digits after the point, got 6"),
    ("a decimal(5,2", 14, "expected ) to close decimal(, got the end"),
    ("a int not nul", 11, "expected NOT NULL, got NOT and nul"),
    ("a int, b int, A int", 15, "column A occurs twice (a and A differ in case only)"),
    ("a struct<x:int,x:int>", 16, "column x occurs twice"),
    ("`a int", 1, "this ` opens a name that no second ` closes"),
    ("a int; drop", 6, "expected a comma or the end, got ;"),
    ("a " + "array<" * 40, 195, "types may be nested 32 deep"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "character", "message"), WRONG)
def test_an_error_points_at_the_character(text: str, character: int, message: str) -> None:
    with pytest.raises(Wrong) as raised:
        parse_columns(text)
    assert str(raised.value).startswith(f"{message} at character {character} of “")
    assert raised.value.offset == character - 1


@pytest.mark.parametrize(
    ("written", "hint"),
    [
        ("strng", "; did you mean string?"),
        ("varchar", "; types: string, binary, boolean, tinyint, smallint, int, bigint, float, double, date, timestamp, "
         "decimal, array, map, struct"),
    ],
)  # fmt: skip
def test_an_unknown_type_is_told_with_the_nearest_or_all(written: str, hint: str) -> None:
    with pytest.raises(Wrong, match="unknown type") as raised:
        parse_columns(f"a {written}")
    assert str(raised.value).endswith(hint)


def test_columns_are_selected_in_the_asked_order() -> None:
    columns = parse_columns("a int, b string, c date")
    assert columns.select(["c", "a"]) == parse_columns("c date, a int")
    with pytest.raises(KeyError):
        columns.select(["d"])


def test_a_column_is_found_with_or_without_its_case() -> None:
    columns = parse_columns("User int")
    assert columns.find("user") is None
    assert columns.find("user", ignore_case=True) == columns.columns[0]


def test_an_arrow_type_that_spark_cannot_name_is_refused() -> None:
    with pytest.raises(ValueError, match="no column type is Arrow's uint8"):
        Columns.from_arrow(pa.schema([("a", pa.uint8())]))
