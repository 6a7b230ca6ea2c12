"""Servers on one host, the product on the other. Collected only by `test_networks.py`, within its namespaces."""

import os
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace

import psycopg
import pytest

import enrich.dev.servers.postgres
import enrich.dev.servers.redis
from enrich.dev import Addresses, Stack
from tests.support.kafka.topics import Cluster
from tests.support.links.two_hosts import BROKER, DATABASES, Client, two_hosts
from tests.support.sync.service import SyncWorld

if "ENRICH_TEST_INSIDE" not in os.environ:
    collect_ignore_glob = ["test_*.py"]


@pytest.fixture(scope="session")
def client() -> Iterator[Client]:
    with two_hosts() as client:
        yield client


@pytest.fixture(scope="session")
def hosts(client: Client, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Addresses]:
    """Broker, Redis and PostgreSQL as the client reaches them. They listen on addresses that no stack has otherwise."""
    for module in [module for name, module in sys.modules.items() if name.startswith("enrich.dev")]:
        if hasattr(module, "HOST"):
            setattr(module, "HOST", BROKER)  # noqa: B010 - of whatever module has one
    setattr(enrich.dev.servers.redis, "HOST", "0.0.0.0")  # noqa: B010, S104 - of a namespace that nobody else is in
    setattr(enrich.dev.servers.postgres, "HOST", "127.0.0.1")  # noqa: B010
    enrich.dev.servers.postgres._SETTINGS["listen_addresses"] = "*"
    folder = tmp_path_factory.mktemp("stack")
    stack = Stack(folder)
    try:
        found = stack.up(["postgres"])
        (access,) = folder.rglob("pg_hba.conf")
        with access.open("a") as file:
            file.write("host all all 10.99.0.0/24 scram-sha-256\n")
        dsn = found.postgres_dsn or ""
        with psycopg.connect(dsn) as connection:
            connection.execute("SELECT pg_reload_conf()")
        redis_url = found.redis_url.replace("0.0.0.0", DATABASES)  # noqa: S104
        yield replace(found, redis_url=redis_url, postgres_dsn=dsn.replace("127.0.0.1", DATABASES))
    finally:
        stack.reset(yes=True)


@pytest.fixture
def cluster(hosts: Addresses) -> Cluster:
    return Cluster({"bootstrap.servers": hosts.bootstrap_servers})


@pytest.fixture
def world(hosts: Addresses) -> Iterator[SyncWorld]:
    with ExitStack() as held:
        world = SyncWorld(hosts, held)
        world.make_topic(partitions=2)
        world.make_table()
        yield world
