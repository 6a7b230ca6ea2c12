"""Column lists: every schema that Spark can name is written and read back as itself; any text is read or refused."""

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from enrich.config.messages.words import Wrong
from enrich.config.types.column_types import MAX_PRECISION, SIMPLE_TYPES, from_arrow, to_arrow
from enrich.config.types.columns import Columns, parse_columns

WORDS = [
    "a",
    "B",
    "not",
    "null",
    "struct",
    "array",
    "int",
    "two words",
    "tick`s",
    "`",
    ",",
    "a:b",
    "größe",
    "1st",
    "<>",
]
NAMES = st.one_of(st.sampled_from(WORDS), st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1))


@st.composite
def decimals(draw: st.DrawFn) -> pa.DataType:
    precision = draw(st.integers(1, MAX_PRECISION))
    return pa.decimal128(precision, draw(st.integers(0, precision)))


SIMPLE = st.sampled_from([to_arrow(parse_columns(f"a {name}").columns[0].type) for name in SIMPLE_TYPES])


def fields(types: st.SearchStrategy[pa.DataType]) -> st.SearchStrategy[list[pa.Field]]:
    each = st.builds(lambda name, kind, nullable: pa.field(name, kind, nullable=nullable), NAMES, types, st.booleans())
    return st.lists(each, min_size=1, max_size=5, unique_by=lambda field: field.name.casefold())


TYPES = st.recursive(
    st.one_of(SIMPLE, decimals()),
    lambda inner: st.one_of(
        inner.map(pa.list_),
        st.builds(pa.map_, inner, inner),
        fields(inner).map(pa.struct),
    ),
    max_leaves=8,
)


@given(fields(TYPES))
def test_a_schema_written_as_columns_is_read_as_the_same_schema(drawn: list[pa.Field]) -> None:
    schema = pa.schema(drawn)
    text = str(Columns.from_arrow(schema))
    assert parse_columns(text).arrow == schema


@given(TYPES)
def test_a_type_turned_to_arrow_and_back_is_the_same_type(kind: pa.DataType) -> None:
    assert to_arrow(from_arrow(kind)) == kind


PIECES = st.sampled_from([*WORDS, "decimal", "(", ")", "5", "<", ">", ":", " ", "map", "NOT NULL", "`x y`", "string"])


@given(st.one_of(st.text(), st.lists(PIECES).map(" ".join), st.lists(PIECES).map("".join)))
def test_any_text_is_columns_or_refused_at_a_character_of_it(text: str) -> None:
    try:
        columns = parse_columns(text)
    except Wrong as wrong:
        assert wrong.offset is not None
        assert 0 <= wrong.offset <= len(text)
    else:
        assert parse_columns(str(columns)) == columns
