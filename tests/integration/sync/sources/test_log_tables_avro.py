"""Tables of one source in Avro: each has its schema in the registry, which follows its columns as far as it may."""

import http.client
import io
import json
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import fastavro
import pytest

from enrich.codecs.avro.schemas.registry import Registry, RegistryAccess
from enrich.dev import Addresses, temporary_stack
from tests.support.sync.many_tables import ManyTables, many_tables
from tests.support.sync.sources import SourceWorld
from tests.support.waiting import wait_until


@pytest.fixture(scope="module")
def addresses() -> Iterator[Addresses]:
    with temporary_stack(("registry", "postgres"), quiet=True) as addresses:
        yield addresses


@pytest.fixture
def many(addresses: Addresses, tmp_path: Path) -> Iterator[ManyTables]:
    with ExitStack() as held:
        source = SourceWorld(addresses, tmp_path, held)
        source.registry = {"url": addresses.registry_url}
        source.settings = {**source.settings, "format": "avro"}
        with many_tables(source) as many:
            yield many


def rows(many: ManyTables, table: str, addresses: Addresses) -> dict[int, Any]:
    """The newest values of the table's topic, each by the schema that it was written with."""
    found: dict[int, Any] = {}
    if not many.source.cluster.topics.exists(many.topic(table)):
        return found
    for values in many.versions(table).values():
        if values[-1] is not None:
            row = decoded(values[-1], addresses)
            found[row["id"]] = row
    return found


def decoded(value: bytes, addresses: Addresses) -> Any:
    schema = json.loads(Registry(RegistryAccess(str(addresses.registry_url))).get(int.from_bytes(value[1:5])))
    return fastavro.schemaless_reader(io.BytesIO(value[5:]), schema, None)


def require_compatible(addresses: Addresses, subject: str) -> None:
    """As registries are by default, but not the embedded one."""
    address = urlsplit(str(addresses.registry_url))
    connection = http.client.HTTPConnection(address.netloc, timeout=30)
    headers = {"Content-Type": "application/vnd.schemaregistry.v1+json"}
    connection.request("PUT", f"{address.path}/config/{subject}", json.dumps({"compatibility": "BACKWARD"}), headers)
    response = connection.getresponse()
    assert response.status == 200, response.read()
    connection.close()


def test_a_schema_follows_its_table_and_one_that_may_not_holds_that_table_alone(
    many: ManyTables, addresses: Addresses
) -> None:
    many.make("fine", rows=3)
    many.make("grows", rows=3)
    many.make("breaks", rows=3)

    def has(table: str, row: int, plan: Any, **more: Any) -> bool:
        return rows(many, table, addresses).get(row) == {"id": row, "plan": plan, **more}

    with many.source.running() as service:
        wait_until(lambda: all(has(name, 3, "plan 3") for name in many.tables()), what="all tables")
        many.execute("ALTER TABLE {}.grows ADD COLUMN note text DEFAULT 'old'")
        wait_until(lambda: has("grows", 1, "plan 1", note="old"), what="the added column of old rows")
        many.change("grows", "changed", 2)
        wait_until(lambda: has("grows", 2, "changed", note="old"), what="a change of the grown table")
        for table in many.tables():
            require_compatible(addresses, f"{many.topic(table)}-value")
        many.execute("ALTER TABLE {}.breaks ALTER COLUMN plan TYPE int USING 5")
        wait_until(lambda: f"{many.schema}.breaks" in service.status("in").details.get("held", {}), what="the report")
        why = service.status("in").details["held"][f"{many.schema}.breaks"]["why"]
        assert "registry" in why or "schema" in why, why
        many.change("fine", "goes on", 1)
        wait_until(lambda: has("fine", 1, "goes on"), what="the other tables")
        assert rows(many, "breaks", addresses)[1]["plan"] == "plan 1"
        many.execute("ALTER TABLE {}.breaks ALTER COLUMN plan TYPE text USING 'mended'")
        wait_until(lambda: has("breaks", 1, "mended"), what="the mended table")
