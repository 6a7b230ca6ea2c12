"""A person lets a route stand still, go on, or write its topic again, wherever it runs."""

import argparse

import pytest

from enrich.base.errors import ConfigError
from enrich.config import Pipeline
from enrich.service.routes import RouteState
from sync_service.writeback.command import control
from tests.support.sync.service import Running, SyncWorld, running
from tests.support.waiting import wait_until


def say(command: str, pipeline: Pipeline, route: str = "out") -> int:
    return control(pipeline, argparse.Namespace(command=command, routes=[route], json=False))


def wait_paused(service: Running) -> None:
    for route in ("out", "out.retry-1"):
        wait_until(lambda route=route: service.status(route).state is RouteState.paused, what=f"{route} is paused")  # type: ignore[misc] # a lambda's default


@pytest.mark.parametrize("store", ["redis", "postgres"])
def test_a_route_stands_still_goes_on_and_writes_its_topic_again(
    world: SyncWorld, store: str, capsys: pytest.CaptureFixture[str]
) -> None:
    world.make_topic(partitions=1)
    if store == "postgres":
        world.make_table()
    to = world.to_redis() if store == "redis" else world.to_postgres()
    pipeline = world.pipeline(to, retries=["1h"])
    with pytest.raises(ConfigError, match="has not begun yet"):
        say("pause", pipeline)
    with pytest.raises(ConfigError, match="no write-back route `other`"):
        say("pause", pipeline, "other")
    world.produce(("a", {"plan": "x", "rps": 1}), ("b", {"plan": "x", "rps": 2}))
    with running(pipeline) as service:
        wait_until(lambda: len(world.everything()) == 2)
        assert say("pause", pipeline) == 0 and "is paused" in capsys.readouterr().out
        wait_paused(service)
        assert "enrich sync resume out" in str(service.status().last_error)
        world.produce(("c", {"plan": "x", "rps": 3}))
    with running(pipeline) as service:  # after a restart too
        wait_paused(service)
        before = service.status().last_error_ms
        wait_until(lambda: service.status().last_error_ms != before, what="one more look")
        assert len(world.everything()) == 2
        say("resume", pipeline)
        wait_until(lambda: len(world.everything()) == 3, what="the row that came meanwhile")
        was = world.everything()
        if store == "redis":
            world.redis.delete(f"{world.name}:a")
        else:
            world.postgres.execute(f"DELETE FROM {world.name} WHERE id = 'a'")  # noqa: S608 - our own name
        say("resync", pipeline)
        wait_until(lambda: len(world.everything()) == 3, what="the row that was lost")
        assert world.everything() == was
