"""Whatever password stands in an address, and however it is written: no message of ours holds a part of it."""

import contextlib
import traceback
from collections.abc import Callable

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from enrich.base.errors import ConfigError, EnrichError
from enrich.config import load_text, mask
from stores.external.postgres.session import PostgresSession
from stores.external.redis.clients import RedisAddress, connect
from stores.external.redis.errors import redis_errors
from tests.support.seed import rounds

# Known words between characters that have a meaning in addresses: a word that is found in a message has leaked.
WORDS = ("hunter", "4711", "tango")
ODD = st.text(st.sampled_from("/@#?:%[],&=;'\\ \u2100"), max_size=3)
PASSWORDS = st.builds(lambda a, b: f"{WORDS[0]}{a}{WORDS[1]}{b}{WORDS[2]}", ODD, ODD)
CLOSED = "127.0.0.1:1"


def redis_says(address: str) -> list[str]:
    told = RedisAddress(address, deadline_s=0.5)
    says = [told.shown, mask(address)]
    with contextlib.suppress(ConfigError), redis_errors(told.shown):
        connect(told)  # opens nothing yet: what it does is take the address apart
    return says


def postgres_says(address: str) -> list[str]:
    session = PostgresSession(address, deadline_s=0.5)
    says = [session.where, mask(address)]
    try:
        with session.connection():
            pytest.fail("nobody listens there")
    except EnrichError as error:
        says += [str(error), repr(error), *traceback.format_exception(error)]
    return says


HEAD = "name: p\nkafka: {bootstrap_servers: 'localhost:9092'}\n"


def redis_target(address: str) -> str:
    return f"{{redis: {{url: {quoted(address)}}}}}"


def postgres_target(address: str) -> str:
    return f"{{postgres: {{dsn: {quoted(address)}, table: rows, key: [id], version_column: v}}}}"


def writeback(target: str) -> str:
    return f"{HEAD}sync: {{writeback: {{w: {{topic: t, format: json, columns: 'a int', to: {target}}}}}}}\n"


FORMS: dict[str, tuple[str, Callable[[str], list[str]]]] = {
    "redis": (f"redis://:{{}}@{CLOSED}/0", redis_says),
    "redis user": (f"redis://dave:{{}}@{CLOSED}/0", redis_says),
    "rediss": (f"rediss://dave:{{}}@{CLOSED}", redis_says),
    "redis query": (f"redis://{CLOSED}/0?password={{}}", redis_says),
    "postgres": (f"postgresql://erin:{{}}@{CLOSED}/rows", postgres_says),
    "postgres query": (f"postgresql://erin@{CLOSED}/rows?password={{}}", postgres_says),
    "postgres pairs": ("host=127.0.0.1 port=1 user=erin password={} dbname=rows", postgres_says),
    "postgres quoted": ("host=127.0.0.1 port=1 user=erin password='{}' dbname=rows", postgres_says),
}


@settings(max_examples=rounds(100, 2_000), deadline=None)
@given(st.sampled_from(sorted(FORMS)), PASSWORDS)
@example("redis", "hunter/4711")
@example("redis", "hunter#4711")
@example("postgres", "hunter/4711")
@example("postgres", "4711/hunter@tango")
@example("postgres", "hunter@4711")
@example("postgres", "hunter%zz4711")
@example("postgres query", "hunter#4711&tango")
@example("postgres pairs", "hunter 4711")
@example("postgres pairs", "hunter&4711")
@example("postgres pairs", "hunter\\ 4711")
def test_no_message_holds_a_part_of_a_password(form: str, password: str) -> None:
    pattern, say = FORMS[form]
    address = pattern.format(password)
    target = (postgres_target if form.startswith("postgres") else redis_target)(address)
    try:
        load_text(writeback(target), {})
    except ConfigError as error:
        says = [str(error), repr(error), *traceback.format_exception(error)]
        assert ".url" in says[0] or ".dsn" in says[0], says[0]
    else:
        says = say(address)
    for word in WORDS:
        if word in password:
            assert not any(word in text for text in says), says


def quoted(text: str) -> str:
    return "'" + text.replace("'", "''").replace("$", "$$") + "'"


@pytest.mark.parametrize(
    "address",
    [
        "redis://127.0.0.1:6379/0",
        "redis://[::1]:6379",
        "rediss://user:p%40%2Fss@host",
        "redis://:p%23w@host:6379/0?socket_timeout=5",
        "unix:///run/redis.sock?db=1",
    ],
)
def test_addresses_that_are_right_are_taken(address: str) -> None:
    load_text(writeback(redis_target(address)), {})


@pytest.mark.parametrize(
    "address",
    [
        "postgresql:///rows",
        "postgresql://a:5432,b:5433/rows?target_session_attrs=any",
        "postgresql://erin:p%2Fw@[::1]:5432/rows?sslmode=require",
        "postgresql://erin@%2Frun%2Fpostgres/rows",
        "host=h password='it\\'s' dbname=d",
    ],
)
def test_addresses_of_postgres_that_are_right_are_taken(address: str) -> None:
    load_text(writeback(postgres_target(address)), {})


@pytest.mark.parametrize("password", ["hunter/2", "hunter#2", "hunter@2", "hunter?2", "hun[ter2", "hunter%zz2"])
def test_an_address_that_can_be_misread_is_refused_with_the_way_to_write_it(password: str) -> None:
    with pytest.raises(ConfigError, match="in a password write / as %2F") as raised:
        load_text(writeback(redis_target(f"redis://:{password}@h:6379")), {})
    assert "hun" not in str(raised.value)
