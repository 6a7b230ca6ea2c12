"""JSON events read and written in columns, against plain Python that takes them one by one."""

import json
from random import Random
from unittest.mock import patch

import numpy as np
import pyarrow as pa
from hypothesis import example, given
from hypothesis import strategies as st

from enrich.stage.events.fields import EventFields, _all_nullable, _WithOddFields
from enrich.stage.events.one_by_one import OneByOne
from enrich.stage.events.splicing import spliced
from enrich.stage.events.text import json_text, members_text
from tests.property.codecs.json_values import KINDS, documents
from tests.support.stage.events import BAD_EVENTS, GOOD_SHAPES
from tests.support.stage.oracle import parsed

FIELDS = pa.schema([("c", pa.string()), ("user_id", pa.string()), ("d", pa.int64()), ("x", pa.int8())])
OTHERS = b'{"c":"a","d":1}'
NUMBERS = [b'{"user_id":%s}' % text for text in (b"-0", b"5.50", b"1e7", b"-12", b"true", b"1" * 1_001, b"1" * 5_000)]
texts = st.text(st.characters(codec="utf-8"))
NESTED = pa.struct([("c", pa.struct([("x", pa.string()), ("y", pa.bool_())])), ("y", pa.int8())])
MAPS = [
    pa.map_(pa.string(), pa.string()),
    pa.map_(pa.string(), pa.struct([("x", pa.int32()), ("c", pa.string())])),
    pa.map_(pa.string(), pa.list_(pa.bool_())),
    pa.map_(pa.string(), pa.map_(pa.string(), pa.int8())),
    pa.list_(pa.map_(pa.string(), pa.int8())),
    pa.struct([("c", pa.map_(pa.string(), pa.decimal128(5, 2))), ("x", pa.string())]),
]
kinds = st.sampled_from([*KINDS, NESTED, *MAPS]).map(_all_nullable)
schemas = st.tuples(kinds, kinds).map(lambda both: pa.schema([("c", both[0]), ("x", both[1])]))


def told(rows):
    # repr: 0.0 and -0.0 are equal, and yet they would be written differently
    return [repr(row) for row in rows.to_pylist()]


def expected(event, kind):
    value = event.get(kind.name)
    if pa.types.is_string(kind.type):
        if value is None or isinstance(value, str):
            return None if value is None else value.encode(errors="replace").decode()
        return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode(errors="replace").decode()
    limit = 2 ** (kind.type.bit_width - 1)
    is_whole = isinstance(value, int) and not isinstance(value, bool)
    return value if is_whole and -limit <= value < limit else None


@given(st.lists(documents | st.none(), min_size=1, max_size=6), st.integers(0, 200))
@example([*BAD_EVENTS, *GOOD_SHAPES], 100)
@example([b'{"c":' + b"1" * 3_000 + b',"more":' + b"2" * 5_000 + b"}"], 0)
def test_fields_are_those_that_plain_python_reads_alone_and_among_others(values, others):
    given_values = [*values, *[OTHERS] * others]
    usable, rows = EventFields(FIELDS).read(pa.array(given_values, pa.binary()))
    for value, is_usable, row in zip(given_values, usable, rows.to_pylist(), strict=True):
        event = parsed(value)
        assert is_usable == (event is not None), value
        if event is not None:
            assert row == {field.name: expected(event, field) for field in FIELDS}, value


@given(schemas, st.lists(documents | st.none(), min_size=1, max_size=8), st.randoms(use_true_random=False))
@example(
    pa.schema([("user_id", pa.string()), ("more", pa.struct([("a", pa.string())]))]),
    [*GOOD_SHAPES, *NUMBERS],
    Random(1),
)
@example(
    pa.schema([("c", pa.struct([("x", pa.int64())])), ("x", pa.int64())]),
    [
        b'{"c":{"x":1,"x" : 2 },"x":3}',
        b'{"x":"5","c":[{"x":1}]}',
        b'{"c":{"x":1},"c":{"y":{"x":2}}}',
        b'{"x":5.0,"c":{"x":1e3}}',
        b'{"c":"\\"x\\":1","x":' + b" " * 70 + b"7}",
        b'{"x" ' + b" " * 70 + b":8}",
        b'{"\\u0078":4,"x":5}',
        b'{"c":{"c":{"x":1}}}',
        b"[]",
    ],
    Random(1),
)
@example(
    pa.schema([("m", pa.map_(pa.string(), pa.int8())), ("s", pa.struct([("m", pa.map_(pa.string(), pa.string()))]))]),
    [
        b'{"m":{"a":1,"b" : 2 , "":3},"s":{"m":{"a":"x","b":5,"c":null,"d":[1]}}}',
        b'{"m":{},"s":{"m":{ }}}',
        b'{"m":{"a":1,"b":2,"a":3}}',
        b'{"s":{"m":{"a":"x","b":"y","a":"z"}},"m":{"x":1}}',
        b'{"m":{"a":1},"m":{"b":"2","c":[{"d":1}],"e":{"f":1}},"s":[]}',
        b'{"m":{"a\\u0062":1},"s":{"m":{"a":{"b":{"c":1}}}}}',
        b'{"m":[1],"s":{"m":"x"}}',
        b'{"m":null,"s":null}',
        '{"m":{"é":1,"\u2028":200}}'.encode(),
    ],
    Random(1),
)
def test_events_with_odd_fields_are_read_as_one_by_one(fields, pool, random):
    values = pa.array([*pool, *(random.choice(pool) for _ in range(100))], pa.binary())
    expected = OneByOne(fields).decode(values)
    with patch("enrich.stage.events.fields._FEWEST_ALONE", 1):
        found = _WithOddFields(fields, OneByOne(fields)).decode(values)
    found.rows.validate(full=True)
    assert told(found.rows) == told(expected.rows)
    assert found.bad == expected.bad


@given(st.lists(documents | st.none(), min_size=1, max_size=8), st.integers(0, 200))
@example([*BAD_EVENTS, *GOOD_SHAPES], 100)
def test_without_fields_only_what_is_an_event_is_told(values, others):
    given_values = [*values, *[OTHERS] * others]
    usable, rows = EventFields(pa.schema([])).read(pa.array(given_values, pa.binary()))
    assert len(rows) == len(given_values)
    assert usable.tolist() == [parsed(value) is not None for value in given_values]


@given(
    st.lists(st.sampled_from(GOOD_SHAPES) | st.just(OTHERS), min_size=1, max_size=8),
    st.lists(st.none() | st.fixed_dictionaries({'a "name"': texts | st.none(), "n": st.integers(-9, 9)}), min_size=8),
    st.lists(st.booleans(), min_size=8, max_size=8),
)
def test_objects_are_spliced_into_the_original_bytes(events, rows, wanted):
    rows, wanted = rows[: len(events)], wanted[: len(events)]
    kind = pa.struct([('a "name"', pa.string()), ("n", pa.int32())])
    objects = json_text(pa.array(rows, kind))
    # A part of a larger array, as slices of Spark's batches are.
    values = pa.array([b"before", *events, b"after"], pa.binary()).slice(1, len(events))
    found = spliced(values, np.array(wanted), members_text({"it's": objects, "ü": objects}))
    for event, row, is_wanted, made in zip(events, rows, wanted, found.to_pylist(), strict=True):
        if not is_wanted:
            assert made is None
            continue
        assert json.loads(made) == {**json.loads(event), "it's": row, "ü": row}
        assert made.lstrip().startswith(event.strip()[:-1])
