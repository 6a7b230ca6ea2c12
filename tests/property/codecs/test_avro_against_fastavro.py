"""Avro: many records at once, one at a time, and fastavro must agree."""

import json

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from enrich.codecs import BareAvro
from tests.property.codecs.avro_values import record, records, types, written


def decoder_of(typed, columns=None):
    return BareAvro(pa.schema(list(typed.kind if columns is None else columns)), json.dumps(typed.schema))


@given(st.data())
def test_what_fastavro_writes_is_read_alone_and_among_others(data):
    typed = data.draw(records)
    values = data.draw(st.lists(typed.values, min_size=1, max_size=8))
    bodies = [written(typed.schema, value) for value in values]
    decoder = decoder_of(typed)
    expected = pa.array(values, typed.kind).to_pylist()
    for times in (1, 80):
        decoded = decoder.decode(pa.array(bodies * times, pa.binary()))
        decoded.rows.validate(full=True)
        assert decoded.bad == {}
        assert decoded.rows.to_pylist() == expected * times


@given(st.data())
def test_columns_that_nobody_asks_for_are_stepped_over(data):
    typed = data.draw(records)
    value = data.draw(typed.values)
    wanted = data.draw(st.lists(st.sampled_from(list(typed.kind)), min_size=1, unique_by=lambda field: field.name))
    decoder = decoder_of(typed, wanted)
    decoded = decoder.decode(pa.array([written(typed.schema, value)] * 70, pa.binary()))
    expected = pa.array([value], typed.kind).to_pylist()[0]
    assert decoded.rows.to_pylist() == [{field.name: expected[field.name] for field in wanted}] * 70


@st.composite
def damaged(draw, body):
    place = draw(st.integers(0, len(body)))
    match draw(st.integers(0, 3)):
        case 0:
            return body[:place]
        case 1:
            return body + draw(st.binary(min_size=1, max_size=3))
        case 2:
            return body[:place] + draw(st.binary(min_size=1, max_size=10)) + body[place + 1 :]
    return draw(st.binary(max_size=30))


@given(st.data())
def test_damaged_records_are_read_alike_alone_and_among_others(data):
    typed = data.draw(records)
    whole = [written(typed.schema, value) for value in data.draw(st.lists(typed.values, min_size=1, max_size=4))]
    broken = [data.draw(damaged(data.draw(st.sampled_from(whole)))) for _ in range(4)]
    pool = [*whole, *broken, None]
    bodies = data.draw(st.permutations(pool * 12))
    decoder = decoder_of(typed)
    alone = {body: decoder.decode(pa.array([body], pa.binary())) for body in pool}
    together = decoder.decode(pa.array(bodies, pa.binary()))
    together.rows.validate(full=True)
    assert repr(together.rows.to_pylist()) == repr([alone[body].rows.to_pylist()[0] for body in bodies])
    assert together.bad == {i: alone[body].bad[0] for i, body in enumerate(bodies) if alone[body].bad}


@given(st.data(), types)
def test_arrays_of_very_different_lengths_keep_their_owners(data, item):
    typed = record([type(item)({"type": "array", "items": "int"}, pa.list_(pa.int32()), st.none())])
    lengths = data.draw(st.lists(st.integers(0, 60), min_size=70, max_size=90))
    values = [{"f0": list(range(number, number + length))} for number, length in enumerate(lengths)]
    decoded = decoder_of(typed).decode(pa.array([written(typed.schema, value) for value in values], pa.binary()))
    assert decoded.bad == {}
    assert decoded.rows.to_pylist() == values
