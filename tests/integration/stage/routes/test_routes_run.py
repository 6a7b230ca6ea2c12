"""Routes of a stage that runs: their topics, a changed configuration on the same checkpoint, and a topic that goes."""

import json
import urllib.request
from collections import Counter
from collections.abc import Callable
from typing import Any

from enrich.base.errors import ConfigError
from enrich.dev.servers.ports import choose
from tests.support.stage.runs import Run, running
from tests.support.stage.world import StageWorld
from tests.support.waiting import wait_until

LOOKUP = {"table": "users", "key": "user_id", "as": "user"}


def routed(world: StageWorld, routes: list[dict[str, str]], **section: Any) -> str:
    stage = world.stage("enrich", [LOOKUP], **section)
    del world.document["stages"][stage]["sink"]
    world.document["stages"][stage]["routes"] = routes
    return stage


def until(run: Run, condition: Callable[[], bool], *, what: str) -> None:
    def has_come() -> bool:
        assert run.error is None, run.error
        return condition()

    wait_until(has_come, what=what)


def ids(world: StageWorld, topic: str) -> Counter[int]:
    return Counter(json.loads(message.value() or b"")["id"] for message in world.cluster.messages(topic))


def test_routes_are_taken_counted_and_may_change_between_two_runs(spark, world):
    world.users()
    (port,) = choose(1, ())
    pro, all_, eu = world.topic("pro"), world.topic("all"), world.topic("eu")
    first = {"name": "pro", "when": "user.plan = 'pro'", "topic": pro}
    stage = routed(world, [first, {"name": "all", "topic": all_}], metrics_port=port)
    world.send(stage, [{"id": 1, "user_id": "ann"}, {"id": 2, "user_id": "bob"}, b"no JSON"])
    with running(spark, world, stage) as run:
        until(run, lambda: ids(world, all_) == {1: 1, 2: 1}, what="the events of the route that takes all")
        until(run, lambda: ids(world, pro) == {2: 1}, what="the event of the other one")
        wanted = {'"pro"': 1.0, '"all"': 2.0}

        def is_counted() -> bool:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
                lines = answer.read().decode().splitlines()
            own = [line for line in lines if line.startswith("enrich_stage_routed_events_total{")]
            return all(
                any(f"route={name}" in line and float(line.split()[-1]) == n for line in own)
                for name, n in wanted.items()
            )

        until(run, is_counted, what="the counts of both routes")
        run.stop.set()
        assert run.end() is None
    assert len(world.dead_letters(stage)) == 1
    # Another `when`, another route, and one that is gone: all of that may change.
    world.document["stages"][stage]["routes"] = [
        {**first, "when": "user.plan = 'free'"},
        {"name": "eu", "when": "user.region = 'eu'", "select": "struct(3 AS id, user_id)", "topic": eu},
    ]
    world.send(stage, [{"id": 3, "user_id": "ann"}, {"id": 4, "user_id": "bob"}])
    with running(spark, world, stage) as run:
        until(run, lambda: ids(world, pro) == {2: 1, 3: 1}, what="an event by the new condition")
        until(run, lambda: ids(world, eu) == {3: 1}, what="an event of the new route")
        run.stop.set()
        assert run.end() is None
    assert ids(world, all_) == {1: 1, 2: 1}


def test_a_route_whose_topic_goes_ends_the_stage_and_costs_no_event(spark, world):
    world.users()
    pro, rest = world.topic("pro"), world.topic("rest")
    routes = [{"name": "pro", "when": "user.plan = 'pro'", "topic": pro}, {"name": "rest", "topic": rest}]
    stage = routed(world, routes)
    with running(spark, world, stage) as run:
        world.send(stage, [{"id": 1, "user_id": "ann"}])
        until(run, lambda: ids(world, rest) == {1: 1}, what="the first event")
        world.cluster.topics.delete(pro)
        world.send(stage, [{"id": 2, "user_id": "bob"}])
        assert pro in str(run.end())
    error = Run(spark, world, stage).end()
    assert isinstance(error, ConfigError)
    assert error.where == f"topic {pro}"
    world.cluster.topics.create(pro, partitions=1)
    with running(spark, world, stage) as run:
        until(run, lambda: ids(world, pro) == {2: 1}, what="the event that could not be written")
        wait_until(lambda: ids(world, rest).keys() == {1, 2}, what="the same on the other route")
        run.stop.set()
        assert run.end() is None
