"""JSON events read and written in columns, against plain Python that takes them one by one."""

import json

import numpy as np
import pyarrow as pa
from hypothesis import example, given
from hypothesis import strategies as st

from enrich.stage.events.fields import EventFields
from enrich.stage.events.splicing import spliced
from enrich.stage.events.text import json_text, members_text
from tests.property.codecs.json_values import documents
from tests.support.stage_events import BAD_EVENTS, GOOD_SHAPES
from tests.support.stage_oracle import parsed

FIELDS = pa.schema([("c", pa.string()), ("user_id", pa.string()), ("d", pa.int64()), ("x", pa.int8())])
OTHERS = b'{"c":"a","d":1}'
texts = st.text(st.characters(codec="utf-8"))


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
