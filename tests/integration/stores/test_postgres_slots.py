"""What is asked about publication and slot: no wait without an end, and what the server says itself."""

import socket
import threading
from collections.abc import Iterator
from contextlib import closing

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from enrich.dev import Addresses
from stores.errors import Unreachable
from stores.external.postgres.log.catalog import Catalog
from stores.external.postgres.log.slots import Slots
from tests.support.links.link import Link, Passing


class Hanging(Passing):
    """Passes answers on until it is told to keep them."""

    def __init__(self, keeping: threading.Event, end: threading.Event) -> None:
        self._keeping = keeping
        self._end = end

    def answered(self, data: bytes) -> bytes:
        if self._keeping.is_set():
            self._end.wait()
        return data


class HangingLink(Link):
    def __init__(self, host: str, port: int) -> None:
        self.keeping, self.end = threading.Event(), threading.Event()
        super().__init__(host, port)

    def passing(self, client: socket.socket) -> Passing:  # noqa: ARG002 - whoever it is
        return Hanging(self.keeping, self.end)


def test_a_server_that_hangs_behind_a_proxy_is_given_up(servers: Addresses) -> None:
    address = conninfo_to_dict(servers.postgres_dsn or "")
    with HangingLink(str(address.get("host", "127.0.0.1")), int(str(address["port"]))) as link:
        dsn = make_conninfo(servers.postgres_dsn or "", host="127.0.0.1", port=link.port)
        with closing(Slots(dsn, "enrich_hanging", deadline_s=1.0)) as slots:
            slots.transactions()
            link.keeping.set()
            with pytest.raises(Unreachable, match="did not answer within 1 s"):
                slots.transactions()
            link.end.set()


@pytest.fixture
def schema(servers: Addresses) -> Iterator[psycopg.Connection]:
    with psycopg.connect(servers.postgres_dsn or "", autocommit=True) as database:
        database.execute("CREATE SCHEMA publishing")
        database.execute("SET search_path = publishing")
        database.execute("CREATE TABLE plain (id int PRIMARY KEY)")
        database.execute("CREATE TABLE other (id int PRIMARY KEY)")
        database.execute("CREATE TABLE root (id int PRIMARY KEY) PARTITION BY RANGE (id)")
        database.execute("CREATE TABLE leaf PARTITION OF root FOR VALUES FROM (0) TO (9)")
        yield database
        database.execute("DROP PUBLICATION IF EXISTS enrich_publishing")
        database.execute("DROP SCHEMA publishing CASCADE")


@pytest.mark.parametrize("via_root", ["true", "false"])
@pytest.mark.parametrize("what", ["", "FOR TABLE plain, root", "FOR TABLES IN SCHEMA publishing", "FOR ALL TABLES"])
def test_what_is_published_is_what_the_server_says(
    servers: Addresses, schema: psycopg.Connection, what: str, via_root: str
) -> None:
    made = f"CREATE PUBLICATION enrich_publishing {what} WITH (publish_via_partition_root = {via_root})"
    schema.execute(made.encode())
    asked = "SELECT tablename::text FROM pg_publication_tables WHERE pubname = 'enrich_publishing'"
    published = {name for (name,) in schema.execute(asked)}
    with closing(Slots(servers.postgres_dsn or "", "enrich_publishing")) as slots:
        found = Catalog(slots, ["publishing.*"]).tables()
    assert {each.name: each.is_published for each in found} == {
        name: name in published for name in ("plain", "other", "root")
    }
