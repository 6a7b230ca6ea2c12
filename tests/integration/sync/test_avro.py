"""Avro with a schema registry, all the way: from a table to a topic, and from there to Redis and another table."""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from enrich.dev import Addresses, temporary_stack
from tests.integration.codecs.test_registry import register
from tests.support.seed import random_source
from tests.support.sync.round_trip import SCHEMA, RoundTrip
from tests.support.sync.service import SyncWorld, running
from tests.support.sync.sources import SourceWorld, repeats
from tests.support.waiting import wait_until


@pytest.fixture(scope="module")
def with_registry() -> Iterator[Addresses]:
    with temporary_stack(("registry", "postgres"), quiet=True) as addresses:
        yield addresses


def test_rows_survive_the_way_there_and_back_and_a_new_schema(with_registry: Addresses, tmp_path: Path) -> None:
    assert with_registry.registry_url is not None
    random = random_source("avro")
    with ExitStack() as held:
        source, world = SourceWorld(with_registry, tmp_path, held), SyncWorld(with_registry, held)
        source.settings |= {"delete_guard": 1}
        trip = RoundTrip(source, world, {"format": "avro"}, with_registry.registry_url)
        first = register(with_registry.registry_url, f"{source.topic}-value", SCHEMA)
        source.insert(1, 60)
        with running(trip.pipeline()) as service:
            trip.wait_equal()
            # Of one who does not know about the schema; the source takes it away again, as it has no such row.
            source.cluster.produce(source.topic, [(b"poison", b"no avro")])
            wait_until(lambda: service.status("redis").counters.get("dead_letters") == 1, what="a dead letter")
            wait_until(lambda: service.status("table").counters.get("dead_letters") == 1, what="another")
            trip.change(random)
            trip.wait_equal()
        more = {**SCHEMA, "fields": [*SCHEMA["fields"], {"name": "level", "type": "int", "default": 7}]}
        second = register(with_registry.registry_url, f"{source.topic}-value", more)
        with running(trip.pipeline()):
            trip.change(random)
            trip.wait_equal()
            wait_until(lambda: schema_ids(source) == {second}, what="all rows by the new schema")
        assert first != second
        assert repeats(source.versions()) == []


def schema_ids(source: SourceWorld) -> set[int]:
    return {int.from_bytes(value[1:5]) for value in source.in_topic().values()}
