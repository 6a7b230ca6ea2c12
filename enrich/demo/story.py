"""The demo, chapter by chapter. Each chapter ends with figures that were measured in it."""

import json
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from enrich.demo.world import DemoWorld

_USER, _PLAN = "ann", "pro"
_SOON_S = 30.0
_END_S = 60.0


@dataclass(frozen=True)
class Chapter:
    """What was done, its result in a sentence, and the same for machines."""

    name: str
    title: str
    result: str
    facts: Mapping[str, Any]


def tell_story(world: DemoWorld, look_s: float, announce: Callable[[str], None] = lambda _: None) -> Iterator[Chapter]:
    """`look_s`: how long the viewer can look at each chapter. `announce` is called with what happens next."""
    announce("the stage starts: Spark, the agent of this host, three tables")
    yield _start(world, announce)
    time.sleep(look_s)
    announce(f"a row changes: {_USER} gets the plan {_PLAN}")
    yield _change(world)
    time.sleep(look_s)
    announce("Redis is stopped")
    yield _without_redis(world, look_s)
    announce("the agent of this host is killed")
    yield _without_agent(world)
    time.sleep(look_s)
    announce("the stage drains")
    yield _end(world)


def _start(world: DemoWorld, announce: Callable[[str], None]) -> Chapter:
    began = time.monotonic()
    # Only now: events that wait for the stage's start would be late in all figures.
    world.wait_until(world.stage_runs, "a stage that runs")
    world.plays.start()
    world.wait_until(lambda: world.watch.figures().enriched > 0, "the first enriched event")
    first = time.monotonic() - began
    announce("events flow; Spark warms up")
    quick = world.warm_up()
    warm = time.monotonic() - began
    lag = f"warm after {warm:.1f} s" if quick else "but lag stays high: this machine is busy, so events stay few"
    return Chapter(
        "start",
        "three tables are loaded, and events flow",
        f"the first enriched event after {first:.1f} s, {lag}",
        {"first_event_s": round(first, 1), "warm_s": round(warm, 1)},
    )


def _change(world: DemoWorld) -> Chapter:
    world.watch.look_for(lambda event: event["user_id"] == _USER and event["user"]["plan"] == _PLAN)
    began = time.monotonic()
    world.put("users", _USER, {"plan": _PLAN, "region": "eu"})
    event, seen = world.watch.found(_SOON_S)
    ms = round((seen - began) * 1000)
    shown = {name: event[name] for name in ("id", "user_id", "user", "net")}
    return Chapter(
        "change",
        f"{_USER} gets the plan {_PLAN}: a record in the topic users.v1",
        f"the first event that carries it came out after {ms} ms: {json.dumps(shown)}",
        {"ms": ms, "event": dict(event)},
    )


def _without_redis(world: DemoWorld, look_s: float) -> Chapter:
    before = world.watch.figures()
    world.stop_redis()
    world.wait_until(lambda: not world.redis_answers(), "Redis to be gone", _SOON_S)
    enriched = world.watch.figures().enriched
    world.watch.forget_longest()
    time.sleep(max(look_s, 1.0))
    world.wait_until(lambda: world.watch.figures().enriched > enriched, "events without Redis", _SOON_S)
    after = world.watch.figures()
    return Chapter(
        "redis",
        "Redis is stopped, and the stream does not notice",
        f"{after.enriched - enriched:,} events enriched since; p95 lag {_ms(before.p95_ms)} before, "
        f"{_ms(after.p95_ms)} now",
        {"enriched_since": after.enriched - enriched, "p95_ms_before": before.p95_ms, "p95_ms_after": after.p95_ms},
    )


def _without_agent(world: DemoWorld) -> Chapter:
    enriched = world.watch.figures().enriched
    world.watch.forget_longest()
    killed, began = world.kill_agent(), time.monotonic()

    def is_back() -> bool:
        header = world.agent()
        return header is not None and header.pid != killed and all(table.ready for table in header.tables.values())

    world.wait_until(is_back, "another agent", _SOON_S)
    ms = round((time.monotonic() - began) * 1000)
    world.wait_until(lambda: world.watch.figures().enriched > enriched, "events after the kill", _SOON_S)
    now, since = world.agent(), world.watch.figures().enriched - enriched
    return Chapter(
        "agent",
        f"kill -9 of the agent, process {killed}",
        f"another one was ready after {ms} ms; {since:,} events enriched meanwhile, the latest of them "
        f"{_ms(world.watch.longest_ms())} after its time",
        {"killed": killed, "pid": None if now is None else now.pid, "ready_ms": ms, "enriched_since": since},
    )


def _end(world: DemoWorld) -> Chapter:
    sent = world.plays.stop()
    world.wait_until(lambda: _done(world) >= sent, "the last events", _END_S)
    code = world.drain()
    enriched, dead = world.watch.enriched, world.watch.dead
    missing = set(range(sent)) - set(enriched) - set(dead)
    repeated = sum((enriched + dead).values()) - len(set(enriched) | set(dead))
    return Chapter(
        "end",
        "everything that went in came out",
        f"{sent:,} events: {len(enriched):,} enriched, {len(dead):,} dead letters (plays of nobody), "
        f"{len(missing)} missing, {repeated} repeated; the stage drained and ended with {code}",
        {
            "sent": sent,
            "enriched": len(enriched),
            "dead_letters": len(dead),
            "missing": len(missing),
            "repeated": repeated,
            "exit_code": code,
        },
    )


def _done(world: DemoWorld) -> int:
    figures = world.watch.figures()
    return figures.enriched + figures.dead_letters


def _ms(value: float | None) -> str:
    return "-" if value is None else f"{value:,.0f} ms"
