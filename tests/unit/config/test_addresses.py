"""An address that two programs would take apart differently is refused, and none of it is shown."""

import pytest

from enrich.config.addresses import why_unusable


@pytest.mark.parametrize("database", ["users", "0/users", "-1", "1%30"])
def test_a_redis_address_whose_database_is_no_number_is_refused(database):
    why = why_unusable(f"redis://host:6379/{database}")
    assert why is not None and "no number of a database" in why and database not in why


@pytest.mark.parametrize("end", ["", "/", "/0", "/15", "?socket_timeout=5", "/3?socket_timeout=5"])
def test_one_with_a_number_or_none_is_taken(end):
    assert why_unusable(f"rediss://user:p%2Fw@host:6379{end}") is None
