"""The evaluator of workers, without Spark: trees over columns."""

import pickle
from datetime import UTC, date, datetime
from decimal import Decimal

import pyarrow as pa
import pytest

from enrich.stage.compute import Compiled
from enrich.stage.compute.kinds import BOOLEAN, DATE, TEXT, TIME
from enrich.stage.compute.nodes import Call, Constant, Field
from enrich.stage.compute.rules.patterns import pattern_regex

S, N = Field(("s",), TEXT), Field(("n",), pa.int64())
ID = Field(("device", "id"), TEXT)
DEVICE = pa.struct([("id", pa.string())])


def compiled(root):
    return Compiled("text", root)


def values(root, **columns):
    count = len(next(iter(columns.values())))
    found = compiled(root).evaluate(columns, count)
    assert found.type == root.kind
    return found.to_pylist()


def text(*each):
    return pa.array(each, pa.string())


def test_a_part_of_a_null_object_is_null_whatever_lies_below_it():
    inner = text("a", "b", None)
    device = pa.StructArray.from_arrays([inner], fields=list(DEVICE), mask=pa.array([False, True, False]))
    assert values(ID, device=device) == ["a", None, None]


def test_slices_of_larger_columns_are_evaluated_alone():
    column = text("x", " A", None, "b ", "y").slice(1, 3)
    assert values(Call("lower", (Call("trim", (S,), TEXT),), TEXT), s=column) == ["a", None, "b"]
    price = pa.array([Decimal("9.99"), Decimal("-1.50"), None, Decimal("2.00")]).slice(1)
    whole = Call("whole_of_decimal", (Field(("m",), price.type),), pa.int32())
    assert values(whole, m=price) == [-1, None, 2]


def test_no_events_have_no_answers_of_the_right_type():
    for root in (S, Constant(1, pa.int8()), Call("lower", (S,), TEXT), Call("whole_number", (S,), pa.int64())):
        assert values(root, s=text()) == []


def test_a_constant_is_the_answer_of_all_events():
    assert values(Constant(None, DATE), s=text("a", "b")) == [None, None]
    assert values(Call("concat", (Constant("a", TEXT), Constant("b", TEXT)), TEXT), s=text("x", "y")) == ["ab", "ab"]


def test_fields_are_named_once_in_order():
    root = Call("concat", (ID, S, ID, Constant("-", TEXT)), TEXT)
    assert compiled(root).fields == (("device", "id"), ("s",))


def test_a_compiled_expression_travels():
    root = Call("one_of", (Call("lower", (S,), TEXT),), BOOLEAN, ("a", "b", True))
    each = pickle.loads(pickle.dumps(compiled(root)))  # noqa: S301 made here
    assert each == compiled(root)
    assert each.evaluate({"s": text("A", "c", None)}, 3).to_pylist() == [True, None, None]


@pytest.mark.parametrize(
    ("given", "lower", "upper"),
    [
        ("ABC", "abc", "ABC"),
        ("ΟΔΥΣΣΕΥΣ", "οδυσσευς", "ΟΔΥΣΣΕΥΣ"),
        ("Σ", "\u03c3", "Σ"),
        ("aΣ.b", "a\u03c3.b", "AΣ.B"),
        ("aΣ. b", "aς. b", "AΣ. B"),
        ("a\U00010d69Σ", "a\U00010d69ς", "A\U00010d69Σ"),
        ("\u0295Σ", "\u0295\u03c3", "\u0295Σ"),
        ("\u0130", "i\u0307", "\u0130"),
        ("straße", "straße", "STRASSE"),
    ],
)
def test_letters_change_their_case_as_those_of_java_do(given, lower, upper):
    columns = {"s": text(given, None, "Ab")}
    assert values(Call("lower", (S,), TEXT), **columns) == [lower, None, "ab"]
    assert values(Call("upper", (S,), TEXT), **columns) == [upper, None, "AB"]


def test_a_text_of_many_sigmas_is_no_burden():
    assert values(Call("lower", (S,), TEXT), s=text("Σ" * 50_000)) == ["\u03c3" * 49_999 + "ς"]


def test_truth_has_three_values():
    left, right = pa.array([True, True, False, None]), pa.array([None, False, None, None])
    fields = (Field(("l",), BOOLEAN), Field(("r",), BOOLEAN))
    assert values(Call("and", fields, BOOLEAN), l=left, r=right) == [None, False, False, None]
    assert values(Call("or", fields, BOOLEAN), l=left, r=right) == [True, True, None, None]
    assert values(Call("same", fields, BOOLEAN), l=left, r=right) == [False, False, False, True]


@pytest.mark.parametrize(
    ("given", "number"),
    [
        (" \t+5\x7f", 5),
        ("1.9", 1),
        ("-.", 0),
        ("+", None),
        ("", None),
        ("9223372036854775807", 2**63 - 1),
        ("9223372036854775808", None),
        ("-9223372036854775808.5", -(2**63)),
        ("0" * 40 + "7", 7),
        ("1e3", None),
        ("٣", None),
    ],
)
def test_whole_numbers_are_read_from_text(given, number):
    assert values(Call("whole_number", (S,), pa.int64()), s=text(given, "1")) == [number, 1]


def test_numbers_that_do_not_fit_are_null():
    columns = {"s": text("127", "128", "-129", "x")}
    assert values(Call("whole_number", (S,), pa.int8()), **columns) == [127, None, None, None]
    column = text("1.005", "999.995", "1e2", "-0.004")
    assert values(Call("decimal_of_text", (S,), pa.decimal128(5, 2)), s=column) == [
        *[Decimal("1.01"), None, Decimal("100.00"), Decimal("0.00")]
    ]


@pytest.mark.parametrize(
    ("given", "number"),
    [("1d", 1.0), ("0x1.8p1", 3.0), ("-INF", float("-inf")), ("1e400", float("inf")), ("1e", None), (".", None)],
)
def test_floating_point_numbers_are_read_by_the_grammar_of_java(given, number):
    assert values(Call("floating_of_text", (S,), pa.float64()), s=text(given, "2")) == [number, 2.0]


def test_single_numbers_are_rounded_once():
    # Just above the middle of two single numbers; the nearest double is the middle itself.
    given = "1.00000005960464477540"
    assert values(Call("floating_of_text", (S,), pa.float32()), s=text(f"+{given}", given)) == [1.0000001192092896] * 2


@pytest.mark.parametrize(
    ("position", "length", "part"),
    [(1, 2, "aé"), (0, 2, "aé"), (-2, 1, "c"), (-9, 7, "aé"), (3, 9, "cd"), (2, 0, ""), (2, -1, ""), (9, 1, "")],
)
def test_parts_of_text_are_counted_in_characters(position, length, part):
    assert values(Call("substring", (S,), TEXT, (position, length)), s=text("aécd")) == [part]


def test_division_by_zero_is_null_and_the_smallest_number_wraps_around():
    left, right = pa.array([7, -7, 1, -(2**63)]), pa.array([-2, 2, 0, -1])
    fields = (Field(("l",), pa.int64()), Field(("r",), pa.int64()))
    assert values(Call("quotient", fields, pa.int64()), l=left, r=right) == [-3, -3, None, -(2**63)]
    assert values(Call("remainder", fields, pa.int64()), l=left, r=right) == [1, -1, None, 0]


def test_lists_are_those_of_their_own_rows():
    offsets, items = pa.array([0, 1, 3, 5, 6, 7], pa.int32()), text("before", "a", "b", "a", None, None, "a")
    mask = pa.array([False, False, True, False, False])  # the null list has items all the same
    tags = pa.ListArray.from_arrays(offsets, items, mask=mask).slice(1)
    field = Field(("tags",), tags.type)
    contains = Call("list_contains", (field, Constant("a", TEXT)), BOOLEAN)
    assert values(contains, tags=tags) == [True, None, None, True]
    assert values(Call("item", (field,), TEXT, (-2,)), tags=tags) == ["a", None, None, None]
    assert values(Call("size", (field,), pa.int32(), (-1,)), tags=tags) == [2, -1, 1, 1]


def test_times_too_large_for_milliseconds_are_null():
    found = values(Call("millis_as_time", (N,), TIME), n=pa.array([1500, 2**62, None]))
    assert found == [datetime(1970, 1, 1, 0, 0, 1, 500_000, UTC), None, None]


def test_a_part_that_fails_makes_the_whole_null_and_a_part_that_is_null_does_not():
    time = Call("millis_as_time", (N,), TIME)
    parts = pa.struct([("at", TIME), ("n", pa.int64())])
    root = Call("unless", (Call("object", (time, N), parts), Call("failed", (time, N), BOOLEAN)), parts)
    found = values(root, n=pa.array([0, 2**62, None]))
    assert found == [{"at": datetime(1970, 1, 1, tzinfo=UTC), "n": 0}, None, {"at": None, "n": None}]


def test_times_are_read_by_patterns():
    regex = pattern_regex("yyyy-MM-dd'T'HH:mm:ss.SSSXXX")
    given = text("2024-02-29t10:00:00.5+01:30", "2023-02-29T10:00:00.5Z", "2024-02-29T10:00:00.1234Z", None)
    found = values(Call("time_of_text", (S,), TIME, (regex,)), s=given)
    assert found == [datetime(2024, 2, 29, 8, 30, 0, 500_000, UTC), None, None, None]
    assert values(Call("date_of_text", (S,), DATE), s=text("2024-2 ", "2024-13", "x")) == [date(2024, 2, 1), None, None]


@pytest.mark.parametrize(
    "pattern", ["yyyyMMdd", "MM-yyyy", "yyyy-MM-dd mm", "yyyy-MM-dd XXX HH", "yyyy-MM-dd'q'", "d", ""]
)
def test_patterns_that_leave_a_choice_are_left_to_spark(pattern):
    assert pattern_regex(pattern) is None


def test_parts_joined_with_a_separator_leave_out_nulls():
    parts = (Constant("-", TEXT), S, Field(("u",), TEXT))
    columns = {"s": text("a", None, "a", None), "u": text("b", "b", None, None)}
    assert values(Call("concat_with", parts, TEXT), **columns) == ["a-b", "b", "a", ""]


def test_not_a_number_is_the_largest():
    left, right = pa.array([float("nan")] * 3), pa.array([float("inf"), float("nan"), None])
    fields = (Field(("l",), pa.float64()), Field(("r",), pa.float64()))
    assert values(Call("greater", fields, BOOLEAN), l=left, r=right) == [True, False, None]
    assert values(Call("equal", fields, BOOLEAN), l=left, r=right) == [False, True, None]
