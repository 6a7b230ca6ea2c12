"""A store does what it was asked, and the answer is lost: the same is asked again, and nothing is done twice."""

from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any
from urllib.parse import urlsplit

import pytest

from enrich.dev import Addresses
from tests.support.links.lossy_link import LossyLink
from tests.support.sync.service import SyncWorld, running
from tests.support.waiting import wait_until

_ROWS = 50


@pytest.fixture
def world(servers: Addresses) -> Iterator[SyncWorld]:
    with ExitStack() as held:
        world = SyncWorld(servers, held)
        world.make_topic(partitions=1)
        yield world


def note_changes(world: SyncWorld) -> None:
    """A table that says how often each version of each row was written."""
    world.postgres.execute(f"CREATE TABLE {world.name}_changes (id text, version bigint)")
    world.postgres.execute(
        f"CREATE FUNCTION {world.name}_note() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "  # noqa: S608 - our own name
        f"INSERT INTO {world.name}_changes VALUES (NEW.id, NEW.version); RETURN NEW; END $$"
    )
    world.postgres.execute(
        f"CREATE TRIGGER note AFTER INSERT OR UPDATE ON {world.name} FOR EACH ROW EXECUTE FUNCTION {world.name}_note()"
    )


def changes(world: SyncWorld) -> list[tuple[Any, ...]]:
    return list(world.postgres.execute(f"SELECT id, version FROM {world.name}_changes"))  # noqa: S608 - our own name


@pytest.mark.parametrize(
    ("delete", "statement"), [("soft", b"INSERT INTO"), ("hard", b"COMMIT")], ids=["one statement", "COMMIT"]
)
def test_postgres_commits_and_its_reply_is_lost(world: SyncWorld, delete: str, statement: bytes) -> None:
    world.make_table(soft=delete == "soft")
    note_changes(world)
    at = urlsplit(world.servers.postgres_dsn or "")
    with LossyLink(at.hostname or "", at.port or 0) as link:
        dsn = at._replace(netloc=at.netloc.replace(f":{at.port}", f":{link.port}")).geturl()
        with running(world.pipeline(world.to_postgres(dsn=dsn, delete=delete))) as service:
            world.produce(("first", {"plan": "x", "rps": 1}))
            wait_until(lambda: "first" in world.in_postgres(), what="the first row")
            link.lose_answer_to(statement)
            world.produce(*((f"k{n}", {"plan": "x", "rps": n}) for n in range(_ROWS)))
            wait_until(lambda: link.lost == 1, what="the lost reply")
            assert len(world.in_postgres()) > 1, "what nobody heard of was done"
            wait_until(lambda: service.status().counters["records_read"] == _ROWS + 1, what="the rows again")
            wait_until(lambda: service.status().state == "running" and service.status().lag == 0)
    assert world.in_postgres().keys() == {"first", *(f"k{n}" for n in range(_ROWS))}
    assert service.status().counters["rows_already_there"] > 0
    assert len(changes(world)) == len(set(changes(world))) == _ROWS + 1, "no row was written twice"


def test_redis_writes_and_its_reply_is_lost(world: SyncWorld) -> None:
    at = urlsplit(world.servers.redis_url or "")
    with LossyLink(at.hostname or "", at.port or 0) as link:
        url = at._replace(netloc=f"127.0.0.1:{link.port}").geturl()
        with running(world.pipeline(world.to_redis(url))) as service:
            world.produce(("first", {"plan": "x", "rps": 1}))
            wait_until(lambda: "first" in world.in_redis(), what="the first row")
            link.lose_answer_to(b"EVALSHA")
            world.produce(*((f"k{n}", {"plan": "x", "rps": n}) for n in range(_ROWS)))
            wait_until(lambda: link.lost == 1, what="the lost reply")
            assert len(world.in_redis()) > 1, "what nobody heard of was done"
            wait_until(lambda: service.status().counters["records_read"] == _ROWS + 1, what="the rows again")
    assert world.in_redis().keys() == {"first", *(f"k{n}" for n in range(_ROWS))}
    assert service.status().counters["rows_already_there"] > 0
    assert service.status().counters["rows_written"] + service.status().counters["rows_already_there"] == _ROWS + 1
