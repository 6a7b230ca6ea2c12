"""The recipe of docs/cdc.md as it stands there: a row that is changed in PostgreSQL is joined with the next event."""

import json
import re
from pathlib import Path
from typing import Any

import psycopg

from enrich.config import load
from stores.external.postgres.log.slots import Slots
from tests.support.commands import enrich, enrich_process
from tests.support.host.ending import stop_agent_of
from tests.support.kafka.topics import Cluster
from tests.support.waiting import wait_until

PAGE = Path(__file__).parents[3] / "docs" / "cdc.md"
SLOT = "enrich_shop_customers"


def test_the_recipe_joins_orders_with_a_table_of_postgresql(servers, tmp_path, monkeypatch):
    monkeypatch.setenv("BROKERS", servers.bootstrap_servers)
    monkeypatch.setenv("PG", servers.postgres_dsn)
    monkeypatch.chdir(tmp_path)
    cluster = Cluster({"bootstrap.servers": servers.bootstrap_servers})
    text = PAGE.read_text()
    (pipeline,) = [block for block in re.findall(r"```yaml\n(.*?)```", text, re.DOTALL) if "# shop.yaml" in block]
    (update,) = re.findall(r"    (UPDATE customers .*?)  +#", text)
    Path("shop.yaml").write_text(pipeline)
    with psycopg.connect(servers.postgres_dsn, autocommit=True) as database:
        database.execute("CREATE TABLE customers (id bigint PRIMARY KEY, tier text)")
        database.execute("INSERT INTO customers SELECT n, 'silver' FROM generate_series(1, 20) n")
        applied = enrich("topics", "apply", "--yes", "-c", "shop.yaml")
        assert applied.returncode == 0, applied.stderr
        try:
            with enrich_process("sync", "run", "-c", "shop.yaml") as sync:
                with enrich_process("run", "enrich", "-c", "shop.yaml") as stage:

                    def tier_of_the_next_order(number: int) -> object:
                        for process in (sync, stage):
                            assert process.poll() is None, process.communicate()[1]
                        cluster.produce("orders", [(None, json.dumps({"order_id": number, "customer_id": 7}).encode())])

                        def joined() -> list[Any]:
                            found = [json.loads(one.value() or b"") for one in cluster.messages("orders.enriched")]
                            return [order["customer"] for order in found if order["order_id"] == number]

                        (customer,) = wait_until(joined, what="the order")
                        return customer and customer["tier"]

                    orders = iter(range(1_000))
                    wait_until(lambda: tier_of_the_next_order(next(orders)) == "silver", what="silver")
                    database.execute(update)
                    wait_until(lambda: tier_of_the_next_order(next(orders)) == "gold", what="gold")
                sync.terminate()
                sync.wait(60)
        finally:
            stop_agent_of(load(Path("shop.yaml")))
            slots = Slots(servers.postgres_dsn, SLOT)
            wait_until(lambda: not slots.rows("SELECT 1 FROM pg_replication_slots WHERE active"), what="the slot's end")
            slots.drop()
            slots.close()
            database.execute(f"DROP PUBLICATION IF EXISTS {SLOT}; DROP TABLE customers")
