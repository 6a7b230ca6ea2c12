"""The types that `enrich init` guesses: every row of the file becomes one of the table, and is read back as it was."""

import csv
import tempfile
from pathlib import Path

import pyarrow as pa
from hypothesis import example, given
from hypothesis import strategies as st

from enrich.admin.starting.choices import Choices
from enrich.admin.starting.metadata import read_metadata
from enrich.admin.starting.page import page_of
from enrich.codecs.encoders import encoder_of_table
from enrich.config import load_text
from enrich.host.tables import topic_tables
from stores.external.files.formats import CsvReading

_NUMBERS = st.one_of(
    st.integers(-(10**20), 10**20).map(str),
    st.floats().map(str),
    st.decimals(allow_nan=False, allow_infinity=False, places=2).map(str),
    st.from_regex(r"-?[0-9]{1,20}(\.[0-9]{1,18})?([eE][-+]?[0-9]{1,3})?", fullmatch=True),
)
_CLOCK = r"[0-2][0-9]:[0-6][0-9](:[0-6][0-9](\.[0-9]{1,9})?)?(Z|[-+][0-9]{2}:?[0-9]{2})?"
_TIMES = st.one_of(
    st.dates().map(str),
    st.datetimes().map(str),
    st.from_regex(r"[0-9]{4}-[01][0-9]-[0-3][0-9]", fullmatch=True),
    st.from_regex(r"[0-9]{4}-[01][0-9]-[0-3][0-9][T ]" + _CLOCK, fullmatch=True),
)
_FLAGS = st.sampled_from(["true", "false", "True", "FALSE", "tRue", "1", "0"])
_TEXTS = st.text(st.characters(codec="utf-8", exclude_characters="\0\r"), max_size=5)
_COLUMN = st.one_of(
    *(st.lists(values | st.just(""), min_size=1, max_size=5) for values in (_NUMBERS, _TIMES, _FLAGS, _TEXTS))
)


@given(_COLUMN)
@example(["0000-01-01"])
@example(["9999-12-31 23:59:59-23:00"])
@example(["-0.00", "999999999999.99"])
@example(["-0"])
@example(["1e999"])
def test_what_the_guess_was_made_from_fits_it(values):
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "rows.csv"
        with file.open("w", newline="") as stream:
            writer = csv.writer(stream, lineterminator="\n")
            writer.writerows([("id", "value"), *((f"k{number}", value) for number, value in enumerate(values))])
        found = read_metadata(file)
        assert found.rows == len(values)
        choices = Choices("p", "a:1", "e", "o", "d", "t", "r", "row", found, ("id",), ("id",))
        pipeline = load_text(page_of(choices, Path("pipeline.yaml")))
        table = pipeline.tables["t"]
        read = pa.Table.from_batches(CsvReading(file, "the file", table.columns.arrow).batches())
    (batch,) = read.combine_chunks().to_batches()
    encoded = encoder_of_table(table, pipeline.kafka).encode(batch)
    assert encoded.bad == {}
    decoded = topic_tables(pipeline)["t"].spec.decoder.decode(encoded.values)
    assert decoded.bad == {}
    assert decoded.rows.field(0).to_pylist() == batch.column(0).to_pylist()
    if found.column("value").type == "bigint":
        assert [str(number) for number in batch.column(0).to_pylist() if number is not None] == [*filter(None, values)]
