"""What stands in the fields of JSON events: as docs/formats.md has it for tables, but a field that is wrong is null."""

from datetime import UTC, date, datetime
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest

from enrich.base.errors import ConfigError
from enrich.config import parse_columns
from enrich.stage.events.fields import EventFields

COLUMNS = (
    "t string, n tinyint, big bigint, x double, p decimal(9,2), yes boolean, at timestamp, day date, raw binary, "
    "device struct<id:string not null,n:int>, tags array<int>, labels map<string,int>"
)
FIELDS = parse_columns(COLUMNS).arrow
OTHERS = 100
"""With so many good events beside it, an event is read by the fast parser."""


def read(text):
    """The event's row; None for what is no event."""
    value = text.encode()
    alone = EventFields(FIELDS).read(pa.array([value], pa.binary()))
    good = b'{"t":"a","n":1}'
    among = EventFields(FIELDS).read(pa.array([value, *[good] * OTHERS], pa.binary()))
    (is_usable,), (row,) = alone[0].tolist(), alone[1].to_pylist()
    assert (among[0][0], among[1][0].as_py()) == (is_usable, row), "read otherwise among others"
    return row if is_usable else None


@pytest.mark.parametrize(
    ("field", "text", "value"),
    [
        ("t", "12345678.0", "12345678.0"),
        ("t", '{"a" : [1e7,null]}', '{"a":[10000000.0,null]}'),
        ("n", "127", 127),
        ("n", "200", None),
        ("n", '"5"', None),
        ("n", "5.0", None),
        ("big", "9223372036854775808", None),
        ("x", "1", 1.0),
        ("x", '"NaN"', None),
        ("x", "1e400", None),
        ("p", "1234567.10", Decimal("1234567.10")),
        ("p", "0.1000000000000000055511151231257827", None),
        ("p", '"12.30"', Decimal("12.30")),
        ("p", "1e99999999999999999999", None),
        ("yes", "true", True),
        ("yes", "1", None),
        ("at", '"2026-02-28T10:00:00.5+02:00"', datetime(2026, 2, 28, 8, 0, 0, 500_000, UTC)),
        ("at", "1700000000", None),
        ("at", '"0001-01-01T00:00:00+14:00"', None),
        ("day", '"2026-02-28"', date(2026, 2, 28)),
        ("day", '"2026-02-30"', None),
        ("raw", '"AP8="', b"\x00\xff"),
        ("raw", '"?"', None),
        ("device", '{"id":"a","n":"x","more":1}', {"id": "a", "n": None}),
        ("device", '{"id":null}', {"id": None, "n": None}),
        ("device", "[]", None),
        ("tags", '[1,"x",2.0,null]', [1, None, None, None]),
        ("tags", "{}", None),
        ("labels", '{"a":1,"b":"x"}', [("a", 1), ("b", None)]),
    ],
)
def test_a_field_that_is_not_of_its_type_is_null_and_the_others_are_read(field, text, value):
    row = read(f'{{"{field}":{text},"other":1}}')
    assert row is not None
    assert row == {**dict.fromkeys(FIELDS.names), field: value}


def test_how_deep_an_event_may_be_does_not_depend_on_who_asks():
    def event(deep, field):
        return f'{{"{field}":{"[" * deep}"]]"{"]" * deep}}}'

    def from_a_deeper_place(calls, text):
        return from_a_deeper_place(calls - 1, text) if calls else read(text)

    for field in ("t", "more"):
        assert read(event(899, field)) is not None
        assert read(event(900, field)) is None
        assert from_a_deeper_place(10, event(900, field)) is None
    assert read(event(899, "t"))["t"] == "[" * 899 + '"]]"' + "]" * 899


def test_maps_have_keys_of_text():
    with pytest.raises(ConfigError):
        EventFields(pa.schema([("m", pa.map_(pa.int32(), pa.int32()))]))


def test_events_of_any_size_are_read_beside_small_ones():
    many = ",".join(f'{{"a":[{number}]}}' for number in range(100_000))
    large = f'{{"n":1,"more":[{many}],"t":"{"x" * 1_000_000}"}}'.encode()
    small = b'{"t":"a","n":2}'
    usable, rows = EventFields(FIELDS).read(pa.array([small] * 300 + [large, large[:-1]] + [small] * 300, pa.binary()))
    assert np.flatnonzero(~usable).tolist() == [301]
    assert [row and row["n"] for row in rows.to_pylist()] == [2] * 300 + [1, None] + [2] * 300
    assert rows[300]["t"].as_py() == "x" * 1_000_000
