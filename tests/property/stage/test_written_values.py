"""What is written of a value is read as the same value."""

import math

import pyarrow as pa
import pytest

from enrich.codecs import JsonDecoder
from enrich.stage.events.fields import EventFields
from enrich.stage.events.text import can_write, json_text, name_text, object_of
from tests.support.seed import random_source, rounds
from tests.support.stores.column_values import FLOATS, OTHERS, random_type, random_values

ROWS = 300


def as_numbers(value):
    """As JSON has them: no infinity, and one zero."""
    if isinstance(value, float):
        return repr(value + 0.0) if math.isfinite(value) else None
    if isinstance(value, dict):
        return {name: as_numbers(each) for name, each in value.items()}
    return [as_numbers(each) for each in value] if isinstance(value, list | tuple) else value


@pytest.mark.parametrize("example", range(rounds(20, 500)))
def test_what_is_written_is_read_as_the_same_value(example):
    source = random_source(f"written values {example}")
    kind = random_type(source, (*OTHERS, *FLOATS))
    values = pa.array(random_values(source, kind, ROWS), kind)
    fields = pa.schema([(name := source.choice(["v", 'q"', "ü", "a\nb"]), kind)])
    texts = object_of({name: json_text(values)})
    usable, rows = EventFields(fields).read(texts)
    assert usable.all()
    assert as_numbers(rows.field(0).to_pylist()) == as_numbers(values.to_pylist())
    if "double" not in str(kind) and "float" not in str(kind):
        decoded = JsonDecoder(fields).decode(texts)
        assert not decoded.bad
        assert decoded.rows.field(0).to_pylist() == values.to_pylist()


@pytest.mark.parametrize("part", [pa.binary(), pa.list_(pa.int8()), pa.struct([("a", pa.int8())])])
def test_maps_whose_keys_have_no_text_cannot_be_written(part):
    assert can_write(pa.list_(pa.map_(pa.date32(), part)))
    assert not can_write(pa.struct([("a", pa.map_(part, pa.int8()))]))


def test_names_are_escaped_as_values_are():
    assert name_text('q"\x1f') == b'"q\\"\\u001F"'
