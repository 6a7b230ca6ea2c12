"""An address that two programs would take apart differently is refused, and none of it is shown."""

import psycopg
import pytest

from enrich.config.types.addresses import why_unusable
from stores.errors import ConfigError
from stores.external.postgres.session import shown
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


@pytest.mark.parametrize("host", [".cache", "a..b", "x" * 64])
@pytest.mark.parametrize(
    "address",
    ["redis://:pw@{}:6379/0", "http://{}/rows", "postgresql://erin@db:5432,{}:5433/rows", "host=db,{} port=1"],
)
def test_a_name_that_nobody_can_look_up_is_refused(address, host):
    """As an empty variable makes it: "${CACHE}.svc"."""
    why = why_unusable(address.format(host))
    assert why is not None and "the host's name has an empty part" in why


@pytest.mark.parametrize(
    "address",
    ["https://stra\u00dfe.example/hook", "redis://\u03b2\u03cc\u03bb\u03bf\u03c2:6379", "host=stra\u00dfe.example"],
)
def test_a_name_that_others_read_as_another_one_is_refused(address):
    """Events would go to strasse.example."""
    assert "read in two ways, \u00df or \u03c2: write it in ASCII" in str(why_unusable(address))


@pytest.mark.parametrize("name", ["\ue000.example", "a\u05d0.example"])
def test_a_name_with_letters_that_no_name_has_is_to_be_written_in_ascii(name):
    assert "letters that cannot be looked up: write it in ASCII" in str(why_unusable(f"https://{name}/hook"))


@pytest.mark.parametrize(
    "address",
    [
        "redis://",
        "redis://me@cache.:6379",
        "http://b\u00fccher.example",
        "postgresql://%2Frun%2Fa..b/rows",
        "host=/run/a..b",
    ],
)
def test_other_names_are_taken(address):
    assert why_unusable(address) is None


@pytest.mark.parametrize(
    ("dsn", "told"),
    [
        ("postgresql://erin@[::1]/rows", "PostgreSQL [::1]:5432/rows"),
        ("host=::1 port=1 dbname=rows", "PostgreSQL [::1]:1/rows"),
        ("hostaddr=10.0.0.5 dbname=rows", "PostgreSQL 10.0.0.5:5432/rows"),
        ("postgresql://a:1,b:2/rows", "PostgreSQL a:1,b:2/rows"),
        ("host=a,b dbname=rows", "PostgreSQL a:5432,b:5432/rows"),
        ("service=rows", "PostgreSQL, service rows"),
        ("dbname=rows", "PostgreSQL localhost:5432/rows"),
    ],
)
def test_a_server_of_postgres_is_shown_as_it_is_connected_to(dsn, told):
    assert shown(dsn) == told


def test_a_server_of_redis_is_shown_with_the_brackets_of_its_address():
    assert RedisAddress("redis://:pw@[::1]:6380/0").shown == "Redis [::1]:6380"


@pytest.mark.parametrize("address", ["http://fd00::2/rows", "redis://::1:6379", "postgresql://a,::1/rows"])
def test_of_an_ipv6_address_without_brackets_it_is_said_that_they_are_missing(address):
    assert "or an IPv6 address stands without brackets" in str(why_unusable(address))
