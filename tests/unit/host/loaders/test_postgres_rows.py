"""What is known of a PostgreSQL source before it is connected to."""

import pytest

from enrich.base.errors import ConfigError
from enrich.host.loaders.keyed_rows import KeyedRows
from enrich.host.loaders.postgres import PostgresSource


def test_a_text_that_is_no_address_is_refused_and_nothing_of_it_is_shown():
    rows = KeyedRows(("id",), ("rps",))
    source = PostgresSource("host=db password='hunter2", "limits", rows, where="table limits")
    with pytest.raises(ConfigError, match="not an address of a PostgreSQL database") as refused:
        next(source.batches(lambda: False))
    assert refused.value.where == "table limits"
    assert "hunter2" not in f"{refused.value} {refused.value.__cause__} {refused.value.__context__}"
