"""An address that two programs would take apart differently is refused, and none of it is shown."""

import psycopg
import pytest

from enrich.config.types.addresses import why_unusable
from stores.errors import ConfigError
from stores.external.redis.clients import RedisAddress, connect


@pytest.mark.parametrize("database", ["users", "0/users", "-1", "1%30"])
def test_a_redis_address_whose_database_is_no_number_is_refused(database):
    why = why_unusable(f"redis://host:6379/{database}")
    assert why is not None and "no number of a database" in why and database not in why


@pytest.mark.parametrize("end", ["", "/", "/0", "/15", "?socket_timeout=5", "/3?socket_timeout=5"])
def test_one_with_a_number_or_none_is_taken(end):
    assert why_unusable(f"rediss://user:p%2Fw@host:6379{end}") is None


@pytest.mark.parametrize(
    "address",
    [
        "redis://host:6379?tango=1",
        "rediss://host:6379/0?password=hunter&tango=1",
        "postgresql://erin@host/rows?password=hunter&tango=1",
        "host=db user=erin password=hunter tango=1",
    ],
)
def test_what_no_client_knows_is_taken_for_a_part_of_a_password(address):
    why = why_unusable(address)
    assert why is not None and "not a setting of" in why and "tango" not in why


def test_every_setting_that_libpq_has_is_known():
    for option in psycopg.pq.Conninfo.get_defaults():
        assert why_unusable(f"{option.keyword.decode()}=a") is None
        assert why_unusable(f"postgresql://host/rows?{option.keyword.decode()}=a") is None


@pytest.mark.parametrize("address", ["redis://h#a", "postgresql://h/rows?password=a#b", "http://h/x#a"])
def test_nothing_follows_a_hash(address):
    assert "a # where none can be" in str(why_unusable(address))


@pytest.mark.parametrize("query", ["socket_timeout=soon", "db=x", "ssl_ca_certs=/ca.pem"])
def test_an_option_of_redis_that_its_client_refuses_is_a_wrong_address(query):
    with pytest.raises(ConfigError, match="the client refuses the options of the url") as raised:
        connect(RedisAddress(f"redis://127.0.0.1:1?{query}"))
    assert query.partition("=")[2] not in str(raised.value)
