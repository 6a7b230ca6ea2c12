"""The demo, chapter by chapter. Each chapter ends with figures that were measured in it."""

import json
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from enrich.demo.customers import ACME, CUSTOMERS, GLOBEX
from enrich.demo.world import EXPEL, INGEST, DemoWorld

_USER, _PLAN = "ann", "pro"
_SOON_S, _END_S = 30.0, 60.0
_ASK_EVERY_S = 0.1
_DOWN_S = 3.0
_WARM_S, _WARM_LOOKS = 5.0, 5
_AWAY = 503


@dataclass(frozen=True)
class Chapter:
    """What was done, its result in a sentence, and the same for machines."""

    name: str
    title: str
    result: str
    facts: Mapping[str, Any]
    holds: bool = True
    """Whether what it claims was found to be so."""


def tell_story(world: DemoWorld, look_s: float, announce: Callable[[str], None] = lambda _: None) -> Iterator[Chapter]:
    """`look_s`: how long the viewer can look at each chapter. `announce` is called with what happens next."""
    announce("everything starts: ingest, a Spark stage with its agent and three tables, expel, retrier")
    yield _start(world, look_s, announce)
    time.sleep(look_s)
    announce(f"a row changes: {_USER} gets the plan {_PLAN}")
    yield _change(world)
    time.sleep(look_s)
    announce("Redis is stopped, and the agent of this host is killed")
    yield _without_agent(world)
    time.sleep(look_s)
    announce(f"{GLOBEX} answers {_AWAY} to everything")
    yield _dead_customer(world, look_s, announce)
    time.sleep(look_s)
    announce("ingest is killed in the middle of a request")
    yield _without_ingest(world)
    time.sleep(look_s)
    announce("expel is killed while it delivers")
    yield _without_expel(world)
    time.sleep(look_s)
    announce("everything drains")
    yield _end(world)


def _start(world: DemoWorld, look_s: float, announce: Callable[[str], None]) -> Chapter:
    began = time.monotonic()
    # Only now: events that wait for the stage's start would be late in all figures.
    world.wait_until(world.is_running, "a pipeline that runs")
    world.sender.start()
    world.wait_until(lambda: world.watch.figures().delivered > 0, "the first delivered event")
    first = time.monotonic() - began
    announce("events flow; Spark warms up")
    quick = world.warm_up(max(_WARM_S, _WARM_LOOKS * look_s))
    warm = time.monotonic() - began
    lag = f"warm after {warm:.1f} s" if quick else "but lag stays high: this machine is busy, so events stay few"
    return Chapter(
        "start",
        "plays come by HTTP, are joined, and go to two customers by HTTP",
        f"the first delivered event after {first:.1f} s, {lag}",
        {"first_event_s": round(first, 1), "warm_s": round(warm, 1)},
    )


def _change(world: DemoWorld) -> Chapter:
    world.watch.look_for(lambda event: event["user_id"] == _USER and event["user"]["plan"] == _PLAN)
    began_s = time.time()
    world.put("users", _USER, {"plan": _PLAN, "region": "eu"})
    event, seen_s = world.watch.found(_SOON_S)
    ms = round((seen_s - began_s) * 1000)
    shown = {name: event[name] for name in ("id", "user_id", "user")}
    return Chapter(
        "change",
        f"{_USER} gets the plan {_PLAN}: a record in the topic users.v1",
        f"a customer had the first event that carries it after {ms} ms: {json.dumps(shown)}",
        {"ms": ms, "event": dict(event)},
    )


def _without_agent(world: DemoWorld) -> Chapter:
    world.stop_redis()
    world.wait_until(lambda: not world.redis_answers(), "Redis to be gone", _SOON_S)
    delivered = world.watch.figures().delivered
    world.watch.forget_longest()
    killed, began = world.kill_agent(), time.monotonic()

    def is_back() -> bool:
        header = world.agent()
        return header is not None and header.pid != killed and all(table.ready for table in header.tables.values())

    world.wait_until(is_back, "another agent", _SOON_S)
    ms = round((time.monotonic() - began) * 1000)
    world.wait_until(lambda: world.watch.figures().delivered > delivered, "events after the kill", _SOON_S)
    now, since = world.agent(), world.watch.figures().delivered - delivered
    return Chapter(
        "agent",
        f"Redis stops, and nobody notices; kill -9 of the agent, process {killed}",
        f"another agent was ready after {ms} ms; {since:,} events delivered meanwhile, the latest of them "
        f"{_ms(world.watch.longest_ms())} after its time",
        {"killed": killed, "pid": None if now is None else now.pid, "ready_ms": ms, "delivered_since": since},
    )


def _dead_customer(world: DemoWorld, look_s: float, announce: Callable[[str], None]) -> Chapter:
    before, began = world.watch.figures(), time.monotonic()
    world.watch.forget_longest()
    world.customers.fail(GLOBEX, _AWAY)
    world.wait_until(lambda: _is_given_up(world), f"a breaker that opens for {GLOBEX}", _SOON_S)
    announce(f"{GLOBEX} answers {_AWAY}: its breaker is open, its events wait")
    time.sleep(max(look_s, _DOWN_S))
    during, longest_ms = world.watch.figures(), world.watch.longest_ms(ACME)
    world.customers.be_well(GLOBEX)
    back = time.monotonic()
    announce(f"{GLOBEX} is well again, and gets what it has missed")
    owed = world.sender.acknowledged.copy()
    # If something is lost, the last chapter says what it is.
    world.comes(lambda: not world.missing(owed, GLOBEX), _SOON_S, _ASK_EVERY_S)
    caught_up_s = time.monotonic() - back
    missing = len(world.missing(owed, GLOBEX))
    delivered = during.delivered - before.delivered
    retried = during.customers[GLOBEX].route.retried
    return Chapter(
        "customer",
        f"{GLOBEX} answers {_AWAY} for {back - began:.0f} s; {retried:,} events go to retry topics",
        f"its breaker opens; {ACME} is not disturbed: {delivered:,} events meanwhile, p95 lag {_ms(before.p95_ms)} "
        f"before, {_ms(during.p95_ms)} during it; {GLOBEX} had {_all_but(missing)} {caught_up_s:.1f} s after it was "
        "well again",
        {
            "down_s": round(back - began, 1),
            "breaker": during.customers[GLOBEX].route.breaker,
            "retried": retried,
            "delivered_to_the_other": delivered,
            "p95_ms_before": before.p95_ms,
            "p95_ms_during": during.p95_ms,
            "longest_ms_during": longest_ms,
            "caught_up_s": round(caught_up_s, 1),
            "missing": missing,
        },
    )


def _is_given_up(world: DemoWorld) -> bool:
    route = world.watch.figures().customers[GLOBEX].route
    return not route.is_up and route.retried > 0


def _without_ingest(world: DemoWorld) -> Chapter:
    sender, ingest = world.sender, world.programs[INGEST]
    again = sender.sent_again
    world.wait_until(lambda: sender.is_waiting, "a request under way", _SOON_S)
    killed, began = ingest.kill(), time.monotonic()
    acknowledged = len(sender.acknowledged)
    ingest.start()

    def answers() -> bool:
        # The last answer of the dead one may just be read.
        return sender.sent_again > again and len(sender.acknowledged) > acknowledged

    world.wait_until(answers, "ingest that acknowledges again")
    ms = round((time.monotonic() - began) * 1000)
    return Chapter(
        "ingest",
        f"kill -9 of ingest, process {killed}, in the middle of a request",
        f"another one answered after {ms:,} ms; until then the sender sent what was not acknowledged again, "
        f"{sender.sent_again - again} times",
        {"killed": killed, "pid": ingest.pid, "acknowledges_ms": ms, "sent_again": sender.sent_again - again},
    )


def _without_expel(world: DemoWorld) -> Chapter:
    expel, before = world.programs[EXPEL], world.repeated()
    owed = world.sender.acknowledged.copy()
    killed, began = expel.kill(), time.monotonic()
    expel.start()

    def missing() -> int:
        return max(len(world.missing(owed, customer)) for customer in CUSTOMERS)

    world.comes(lambda: not missing(), _END_S, _ASK_EVERY_S)
    ms = round((time.monotonic() - began) * 1000)
    twice = sum(world.repeated().values()) - sum(before.values())
    return Chapter(
        "expel",
        f"kill -9 of expel, process {killed}, while it delivers",
        f"another one had delivered {_all_but(missing())} that was due after {ms:,} ms, {twice:,} events of it twice: "
        "what had been delivered since the last commit",
        {"killed": killed, "pid": expel.pid, "delivers_ms": ms, "twice": twice, "missing": missing()},
    )


def _end(world: DemoWorld) -> Chapter:
    world.sender.stop()

    def is_done() -> bool:
        return not any(world.missing(world.sender.acknowledged, customer) for customer in CUSTOMERS)

    world.comes(is_done, _END_S, _ASK_EVERY_S)
    # Not after a fixed time, and what is missing then is not waited for: the proof says what it is.
    codes = world.drain()
    proof = world.proof()
    ended = ", ".join(f"{name} {code}" for name, code in codes.items())
    return Chapter(
        "end",
        "origins in = origins out" if proof.holds else "ORIGINS ARE MISSING",
        f"{proof.told()}; all drained: {ended}",
        {**proof.facts(), "exit_codes": dict(codes)},
        holds=proof.holds,
    )


def _all_but(missing: int) -> str:
    return f"all but {missing:,} events" if missing else "everything"


def _ms(value: float | None) -> str:
    return "-" if value is None else f"{value:,.0f} ms"
