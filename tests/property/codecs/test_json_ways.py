"""The fast way of JSON against the strict one, which a batch of one value takes."""

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from enrich.codecs import JsonDecoder
from enrich.codecs.json.fast import Doubt, FastJson, plausible
from enrich.codecs.json.strict import StrictJson
from tests.property.codecs.json_values import columns, documents


def told(rows):
    # repr: 0.0 and -0.0 are equal, and yet they would be written differently
    return [repr(row) for row in rows.to_pylist()]


@given(columns, st.lists(documents | st.none(), min_size=1, max_size=8), st.randoms(use_true_random=False))
def test_a_value_is_decoded_alike_alone_and_among_others(schema, pool, random):
    values = [*pool, *(random.choice([*pool, b'{"c":null}', b"{}"]) for _ in range(100))]
    random.shuffle(values)
    decoder = JsonDecoder(schema)
    alone = {value: decoder.decode(pa.array([value], pa.binary())) for value in set(values)}
    together = decoder.decode(pa.array(values, pa.binary()))
    together.rows.validate(full=True)
    assert told(together.rows) == [told(alone[value].rows)[0] for value in values]
    expected = {index: alone[value].bad[0] for index, value in enumerate(values) if alone[value].bad}
    assert together.bad == expected


@given(
    columns.filter(lambda schema: FastJson.can_read(pa.struct(list(schema)))),
    st.lists(documents, min_size=1, max_size=6),
)
def test_where_arrows_parser_answers_it_answers_as_the_strict_one(schema, values):
    kind = pa.struct(list(schema))
    array = pa.array(values, pa.binary())
    array = array.filter(pa.array(plausible(array, kind)))
    rows = FastJson(kind).rows(array) if len(array) else Doubt()
    if not isinstance(rows, Doubt):
        strict = StrictJson(kind).decode(array)
        assert not strict.bad
        assert told(rows) == told(strict.rows)


@given(st.lists(st.sampled_from(['{"c":1}', '{"c":', "}", "2", ",", "{", '"', "[", "]", '"d"', ":", " "]), min_size=2))
def test_rows_never_shift_whatever_the_values_cut_and_join(pieces):
    kind = pa.struct([("c", pa.int32())])
    for cut in range(1, len(pieces)):
        values = ["{" + "".join(part) + "}" for part in (pieces[:cut], pieces[cut:])]
        values += ['{"c":7}', "".join(pieces)]
        array = pa.array([value.encode() for value in values], pa.binary())
        array = array.filter(pa.array(plausible(array, kind)))
        rows = FastJson(kind).rows(array)
        if not isinstance(rows, Doubt):
            assert rows.to_pylist() == StrictJson(kind).decode(array).rows.to_pylist()
