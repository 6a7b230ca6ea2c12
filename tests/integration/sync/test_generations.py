"""A route notices what happens to its generation and to its store while it is at work, and while it is away."""

import json
from contextlib import closing, nullcontext
from dataclasses import replace
from typing import Any

import pytest

from enrich.base.errors import Retryable
from enrich.config import load_text
from sync_service.reconcile import Reconciliation
from sync_service.reconcile.repairing import Repair
from sync_service.writeback.generation import Gate
from sync_service.writeback.plan import plans_of
from sync_service.writeback.route import Clients
from tests.support.sync.service import SyncWorld, running
from tests.support.waiting import wait_until

ROWS = 10


def rows(world: SyncWorld, plan: str) -> None:
    world.produce(*((f"k{number}", {"plan": plan, "rps": number}) for number in range(ROWS)))


def plans(world: SyncWorld) -> list[list[str]]:
    """In Redis and in PostgreSQL."""
    in_redis = sorted(row["plan"] for row in world.in_redis().values())
    return [in_redis, sorted(plan for plan, _, _ in world.in_postgres().values())]


def empty(world: SyncWorld, *, with_notes: bool) -> None:
    world.redis.delete(*world.redis.scan_iter(f"{world.name}:*"))
    world.postgres.execute(f"TRUNCATE {world.name}")
    if with_notes:
        world.redis.delete(f"enrich:sync:{world.name}.out")
        world.postgres.execute("DELETE FROM enrich_sync_notes WHERE name = %s", [f"enrich:sync:{world.name}.table"])


def test_a_generation_raised_beside_a_running_route_loses_no_update(world: SyncWorld) -> None:
    world.make_topic(partitions=1)
    world.make_table()
    pipeline = load_text(json.dumps(world.data_to_both()), {})
    with running(pipeline) as service:
        rows(world, "v1")
        wait_until(lambda: plans(world) == [["v1"] * ROWS] * 2)
        for plan in plans_of(pipeline):
            report = Reconciliation(plan, Clients(pipeline)).run(repair=True, raise_generation=True)
            assert (report.generation, report.agrees) == (3, True)
        rows(world, "v2")
        wait_until(lambda: plans(world) == [["v2"] * ROWS] * 2, what="the updates")
        assert {service.status(name).state for name in ("out", "table")} == {"running"}


@pytest.mark.parametrize(
    ("remark", "paused"), [({"paused": "now"}, "now"), ({"cut": "partition 0 ends at 5"}, None)], ids=["paused", "cut"]
)
def test_what_is_noted_while_the_generation_is_raised_stays(
    world: SyncWorld, monkeypatch: pytest.MonkeyPatch, remark: dict[str, str], paused: str | None
) -> None:
    world.make_topic(partitions=1)
    (plan,) = plans_of(world.pipeline(world.to_redis()))
    rows(world, "v1")
    with running(world.pipeline(world.to_redis())):
        wait_until(lambda: len(world.in_redis()) == ROWS)
    clients = Clients(world.pipeline(world.to_redis()))
    with closing(plan.open_store()) as store:
        gate = Gate(store, clients.topics(), world.topic, world.name, "out")
        write_all = Repair.write_all

        def noted_meanwhile(self: Repair, *arguments: Any) -> None:
            gate.change(lambda known: replace(known, **remark))  # type: ignore[arg-type] # texts
            write_all(self, *arguments)

        monkeypatch.setattr(Repair, "write_all", noted_meanwhile)
        reconciliation = Reconciliation(plan, clients)
        with pytest.raises(Retryable, match="lost records") if "cut" in remark else nullcontext():
            reconciliation.run(repair=True, raise_generation=True)
        known = reconciliation.noted()
    assert known is not None
    assert (known.paused, known.cut) == (paused, remark.get("cut"))


def test_a_route_that_has_another_name_now_writes_above_the_rows_that_are_there(world: SyncWorld) -> None:
    """It has no note, and nothing is committed: its generation would be the first, and theirs is a higher one."""
    world.make_topic(partitions=1)
    pipeline = world.pipeline(world.to_redis())
    with running(pipeline):
        rows(world, "v1")
        wait_until(lambda: len(world.in_redis()) == ROWS)
        (plan,) = plans_of(pipeline)
        Reconciliation(plan, Clients(pipeline)).run(repair=True, raise_generation=True)
    data = world.data(world.to_redis())
    routes = data["sync"]["writeback"]
    routes["renamed"] = routes.pop("out")
    with running(load_text(json.dumps(data), {})):
        rows(world, "v2")
        wait_until(lambda: {row["plan"] for row in world.in_redis().values()} == {"v2"}, what="the updates")


@pytest.mark.parametrize("raised", [False, True], ids=["first generation", "raised"])
def test_an_emptied_store_is_filled_again(world: SyncWorld, raised: bool) -> None:
    world.make_topic(partitions=1)
    world.make_table()
    pipeline = load_text(json.dumps(world.data_to_both()), {})
    full = [["v1"] * ROWS] * 2

    def is_committed() -> bool:
        return all(world.committed(name) == {0: ROWS} for name in ("out", "table"))

    rows(world, "v1")
    with running(pipeline):
        wait_until(lambda: plans(world) == full and is_committed())
        if raised:
            for plan in plans_of(pipeline):
                Reconciliation(plan, Clients(pipeline)).run(repair=True, raise_generation=True)
        empty(world, with_notes=True)
        wait_until(lambda: plans(world) == full, what="the rows again, of a running service")
        wait_until(is_committed)
    if not raised:
        empty(world, with_notes=False)
        with running(pipeline):
            wait_until(lambda: plans(world) == full and is_committed(), what="the rows again, after a restart")
    empty(world, with_notes=True)
    with running(pipeline):
        wait_until(lambda: plans(world) == full, what="the rows again, with new notes")
        rows(world, "v2")
        wait_until(lambda: plans(world) == [["v2"] * ROWS] * 2, what="the updates")
