"""Reconciliation names every row that is not as the topic says, and nothing else; a repair makes both sides equal."""

import json
import random
import threading
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from enrich.base.errors import WouldLoseData
from sync_service.reconcile import Reconciliation, Report
from sync_service.reconcile.route import ReconcileRoute
from sync_service.reconcile.settling import Settling
from sync_service.writeback.plan import plans_of
from sync_service.writeback.route import Clients
from tests.support.figures import unexplained_of
from tests.support.seed import random_source
from tests.support.sync.service import SyncWorld, running, while_doing
from tests.support.waiting import wait_until

ROWS = 300


@pytest.fixture(params=["redis_hash", "redis_json", "postgres"])
def to(request: pytest.FixtureRequest, world: SyncWorld) -> dict[str, Any]:
    if request.param == "postgres":
        world.make_table()
        return world.to_postgres()
    return world.to_redis(**{"as": request.param.removeprefix("redis_")})


def reconcile(world: SyncWorld, to: dict[str, Any], **options: Any) -> Report:
    pipeline = world.pipeline(to)
    return Reconciliation(plans_of(pipeline)[0], Clients(pipeline)).run(**{"repair": False, **options})


def filled(world: SyncWorld, to: dict[str, Any]) -> None:
    """The store has all rows of the topic, and some deleted ones."""
    world.make_topic()
    world.produce(*((f"k{n}", {"plan": f"p{n}", "rps": n}) for n in range(ROWS)))
    world.produce(*((f"k{n}", None) for n in range(20)))
    with running(world.pipeline(to)) as service:
        wait_until(lambda: service.status().counters["records_read"] == ROWS + 20 and service.status().lag == 0)


def alter(world: SyncWorld, source: random.Random, number: int) -> str:
    """Changes one row behind the service's back, in one of the ways in which rows go wrong. Returns its key."""
    key = f"k{100 + number}"
    way = source.choice(["value", "lost", "version", "newer", "stale"])
    version = 2**40 + (10**6 if way == "newer" else 0)
    if world.has_table:
        change = {
            "value": "SET plan = 'altered'",
            "version": "SET version = version - 1",
            "newer": f"SET version = {version}",
            "stale": "SET version = 5, rps = -1",
        }
        begin = "DELETE FROM" if way == "lost" else "UPDATE"
        world.postgres.execute(f"{begin} {world.name} {change.get(way, '')} WHERE id = %s", [key])
        return key
    name = f"{world.name}:{key}"
    if way == "lost":
        world.redis.delete(name)
    elif world.redis.type(name) == "hash":
        changes: dict[str, dict[str, Any]] = {
            "value": {"plan": "altered"},
            "version": {"_version": int(world.redis.hget(name, "_version")) - 1},
            "newer": {"_version": version},
            "stale": {"_version": 5, "rps": -1},
        }
        world.redis.hset(name, mapping=changes[way])
    else:
        row = json.loads(world.redis.get(name))
        row |= {"value": {"plan": "altered"}, "newer": {"_version": version}}.get(way, {"_version": 5})
        world.redis.set(name, json.dumps(row))
    return key


def test_a_store_that_agrees_is_said_to_agree(world: SyncWorld, to: dict[str, Any]) -> None:
    filled(world, to)
    report = reconcile(world, to)
    assert (len(report.differences), report.rows, report.agrees) == (0, ROWS - 20, True)


def test_twenty_of_twenty_secretly_altered_rows_are_named_and_repaired(world: SyncWorld, to: dict[str, Any]) -> None:
    filled(world, to)
    before = world.everything()
    source = random_source("altered")
    altered = {alter(world, source, number) for number in range(20)}
    assert len(altered) == 20
    assert {one.key.decode() for one in reconcile(world, to).differences} == altered
    assert world.everything() != before
    repaired = reconcile(world, to, repair=True)
    assert repaired.repaired and not repaired.refused
    assert reconcile(world, to).differences == []
    assert world.everything() == before


def test_rows_that_the_topic_does_not_have_are_removed_once_a_person_says_so(
    world: SyncWorld, to: dict[str, Any]
) -> None:
    filled(world, to)
    before = world.everything()
    world.put_extra("extra")
    world.put_extra("k5")  # which was deleted
    assert {(one.key, one.kind) for one in reconcile(world, to).differences} == {(b"extra", "extra"), (b"k5", "extra")}
    with pytest.raises(WouldLoseData, match=r"this would delete 2 rows .*; nothing was changed"):
        reconcile(world, to, repair=True)
    assert world.everything().keys() == {*before, "extra", "k5"}
    assert reconcile(world, to, repair=True, yes=True).agrees
    assert world.everything() == before


def test_nothing_is_said_of_rows_that_change_meanwhile(world: SyncWorld, to: dict[str, Any]) -> None:
    filled(world, to)
    produced = iter(range(1_000_000))

    def change() -> None:
        number = next(produced)
        key = f"k{number % 40}"
        world.produce((key, None if number % 7 == 0 else {"plan": f"again{number}", "rps": number}))

    with running(world.pipeline(to)), while_doing(change):
        for _ in range(2):
            assert reconcile(world, to).differences == []


def test_a_row_may_be_any_of_those_that_came_meanwhile(world: SyncWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    world.make_table()
    to = world.to_postgres()
    filled(world, to)
    change = f"UPDATE {world.name} SET plan = %s, rps = %s, version = %s WHERE id = 'k100'"  # noqa: S608
    world.postgres.execute(change, ["old", -1, 5])

    def meanwhile(settling: Settling, ends: Mapping[int, int]) -> None:
        world.produce(*(("k100", {"plan": f"then{number}", "rps": number}) for number in range(3)))
        at = max(message.offset() or 0 for message in world.cluster.messages(world.topic) if message.key() == b"k100")
        world.postgres.execute(change, ["then1", 1, 2**40 + at - 1])

    monkeypatch.setattr(Settling, "wait", meanwhile)
    assert reconcile(world, to).differences == []


def test_a_route_that_is_slow_is_given_the_time_to_write(world: SyncWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    to = world.to_redis()
    filled(world, to)
    world.produce(*((f"k{n}", {"plan": "late", "rps": n}) for n in range(100, 200)))
    asked: list[dict[int, int]] = []

    def counted(*arguments: Any) -> dict[int, int]:
        reached = read_of_group(*arguments)
        asked.append(reached)
        return reached

    read_of_group = Settling._reached
    monkeypatch.setattr(Settling, "_reached", counted)
    with ThreadPoolExecutor(1) as beside:
        compared = beside.submit(reconcile, world, to)
        wait_until(lambda: len(asked) > 8, what="a wait longer than the route needs on its best day")
        with running(world.pipeline(to)):
            assert compared.result(120).differences == []


def test_a_topic_that_was_recreated_is_taken_up_after_a_repair(world: SyncWorld, to: dict[str, Any]) -> None:
    filled(world, to)
    world.cluster.topics.delete(world.topic)
    wait_until(lambda: not world.cluster.topics.exists(world.topic))
    world.make_topic(partitions=2)
    world.produce(*((f"k{n}", {"plan": "second", "rps": n}) for n in range(100, ROWS + 50)))
    with running(world.pipeline(to)) as service:
        wait_until(lambda: service.status().state == "held", what="the route to be held")
        with pytest.raises(WouldLoseData, match="would delete 80 rows"):
            reconcile(world, to, repair=True)
        report = reconcile(world, to, repair=True, yes=True)
        assert (report.raised, report.generation) == ("was recreated", 3)
        wait_until(lambda: service.status().state == "running", what="the route to go on")
        world.produce(("k100", {"plan": "third", "rps": 1}), ("k101", None))
        wait_until(lambda: world.everything().get("k100", (0, ""))[1] == "third")
        wait_until(lambda: "k101" not in world.everything())
    assert world.everything().keys() == {f"k{n}" for n in range(100, ROWS + 50)} - {"k101"}
    assert {row[1] for key, row in world.everything().items() if key != "k100"} == {"second"}
    assert reconcile(world, to).differences == []


def test_a_topic_that_is_gone_for_a_while_does_not_end_a_service_that_had_nothing_to_read(world: SyncWorld) -> None:
    to = world.to_redis()
    world.make_topic()
    with running(world.pipeline(to)) as service:
        wait_until(lambda: service.status().last_progress_ms is not None, what="the route's partitions")
        world.cluster.topics.delete(world.topic)
        wait_until(lambda: service.status().last_error, what="the route to miss its topic")
        looks = [service.status()]

        def is_missed_again() -> bool:
            looks.append(service.status())
            return looks[-1].last_error_ms != looks[0].last_error_ms

        wait_until(is_missed_again)
        # For as long as it is missing, not only at the moment of each attempt.
        assert {look.state for look in looks} == {"waiting"}
        assert all("the topic does not exist" in str(look.last_error) for look in looks)
        world.make_topic()
        wait_until(
            lambda: "deleted and recreated" in str(service.status().last_error), what="the route to see another one"
        )
        assert service.status().state == "held"


def test_more_partitions_are_taken_up_after_a_repair(world: SyncWorld, to: dict[str, Any]) -> None:
    filled(world, to)
    world.add_partitions(5)
    world.produce(*((f"k{n}", {"plan": "moved", "rps": n}) for n in range(50, 150)))
    assert reconcile(world, to, repair=True).raised == "has 5 partitions and had 3"
    with running(world.pipeline(to)) as service:
        world.produce(*((f"k{n}", {"plan": "after", "rps": n}) for n in range(100, 200)))
        wait_until(lambda: service.status().counters["records_read"] == 100)
    plans = {key: row[1] for key, row in world.everything().items()}
    assert {key for key, plan in plans.items() if plan == "moved"} == {f"k{n}" for n in range(50, 100)}
    assert {key for key, plan in plans.items() if plan == "after"} == {f"k{n}" for n in range(100, 200)}
    assert reconcile(world, to).differences == []


def test_the_service_shows_what_was_found_and_repaired_elsewhere(world: SyncWorld) -> None:
    """By a person's command, or by another instance: the next comparison of its own may be a day away."""
    to = world.to_redis()
    filled(world, to)
    world.redis.delete(f"{world.name}:k100", f"{world.name}:k101")
    pipeline, stopping = world.pipeline(to, reconcile="1d"), threading.Event()
    here, there = (ReconcileRoute(plans_of(pipeline)[0], Clients(pipeline)) for _ in range(2))
    here._compare(stopping, is_due=True)
    there._compare(stopping, is_due=False)
    assert [route.status().gauges["differences"] for route in (here, there)] == [2, 2]
    assert unexplained_of("sync", [here.status()]) == set()
    assert reconcile(world, to, repair=True).repaired
    for route in (here, there):
        route._compare(stopping, is_due=False)
        assert route.status().gauges["differences"] == 0
    world.redis.delete(f"{world.name}:k102")
    there._compare(stopping, is_due=True)
    here._compare(stopping, is_due=False)
    assert [route.status().gauges["differences"] for route in (here, there)] == [1, 1]
