"""Values of `default:`, fitted to the columns' types: what Arrow takes, and what is refused."""

from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from enrich.config.messages.words import Substituted, Wrong
from enrich.config.types.columns import parse_columns
from enrich.config.types.values import fit

NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)

FITTING: list[tuple[str, Any, Any]] = [
    ("string", "free", "free"),
    ("string", Substituted("x", ["X"]), "x"),
    ("binary", "raw", b"raw"),
    ("boolean", True, True),
    ("boolean", "false", False),
    ("tinyint", -128, -128),
    ("bigint", 2**63 - 1, 2**63 - 1),
    ("int", "42", 42),
    ("int", 4.0, 4),
    ("double", 5, 5.0),
    ("float", "1.5", 1.5),
    ("decimal(4,2)", 1.25, Decimal("1.25")),
    ("decimal(4,2)", "99.99", Decimal("99.99")),
    ("date", "2026-01-31", date(2026, 1, 31)),
    ("timestamp", "2026-01-31T12:00:00Z", NOON),
    ("timestamp", "2026-01-31 14:00:00+02:00", NOON),
    ("timestamp", "2026-01-31 12:00:00", NOON),
    ("array<int>", [1, None], [1, None]),
    ("map<string,int>", {"a": 1}, [("a", 1)]),
    ("struct<x:int,y:string>", {"x": 1}, {"x": 1, "y": None}),
    ("string", None, None),
]


@pytest.mark.parametrize(("written", "value", "fitted"), FITTING)
def test_a_fitting_value_is_one_that_arrow_takes(written: str, value: Any, fitted: Any) -> None:
    columns = parse_columns(f"a {written}")
    result = fit(value, columns.columns[0])
    assert result == fitted
    assert pa.array([result], columns.arrow.field("a").type).to_pylist() == [fitted]


REFUSED: list[tuple[str, Any, str]] = [
    ("string", 5, "expected text for string, got the number 5: put it in quotes"),
    ("string", ["a"], "expected text for string, got a list"),
    ("boolean", "yes", "expected true or false, got yes"),
    ("tinyint", 128, "expected a whole number of 8 bits for tinyint, got the number 128"),
    ("int", 1.5, "expected a whole number of 32 bits for int, got the number 1.5"),
    ("int", float("inf"), "expected a whole number of 32 bits for int, got the number inf"),
    ("int", float("nan"), "expected a whole number of 32 bits for int, got the number nan"),
    ("int", True, "expected a whole number of 32 bits for int, got true"),
    ("int", "many", "expected a whole number of 32 bits for int, got many"),
    ("float", 1e300, "expected a number for float, got the number 1e+300"),
    ("double", "x", "expected a number for double, got x"),
    ("decimal(4,2)", 1.255, "expected a number that fits decimal(4,2), got the number 1.255"),
    ("decimal(4,2)", 100, "expected a number that fits decimal(4,2), got the number 100"),
    ("decimal(4,2)", "NaN", "expected a number that fits decimal(4,2), got NaN"),
    ("decimal(4,2)", True, "expected a number that fits decimal(4,2), got true"),
    ("date", "31.1.2026", "expected a date such as 2026-01-31, got 31.1.2026"),
    ("date", 20260131, "expected text for date, got the number 20260131: put it in quotes"),
    ("timestamp", "noon", "expected a timestamp such as 2026-01-31T12:00:00Z, got noon"),
    ("array<int>", 1, "expected a list for array<int>, got the number 1"),
    ("map<string,int>", [1], "expected a mapping for map<string,int>, got a list"),
    ("struct<x:int>", {"y": 1}, "the struct has no field y; fields: x"),
    ("struct<x:int NOT NULL>", {}, "x is declared NOT NULL"),
    ("string NOT NULL", None, "a is declared NOT NULL"),
]


@pytest.mark.parametrize(("written", "value", "message"), REFUSED)
def test_a_value_that_does_not_fit_is_refused_with_the_reason(written: str, value: Any, message: str) -> None:
    with pytest.raises(Wrong) as raised:
        fit(value, parse_columns(f"a {written}").columns[0])
    assert str(raised.value) == message
