"""The first minutes of a stage, in batches and in realtime: from the command to its first output on a host that has
nothing yet; how late events are in the minute after that, beside the same stage when it is warm; and a backlog, how
soon it is read at full speed, and what its first 2 M events take beside Kafka Streams, which starts as cold."""

import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager

from confluent_kafka import Producer

from bench.harness import Figures, family_cpu_seconds, say
from bench.java.kafka_streams import StreamsApp
from bench.kit.agents import remove_agent
from bench.kit.metadata import key_of
from bench.stage.events import PARTITIONS, Events, scaled
from bench.stage.traffic import traffic
from bench.stage.world import StageWorld, stage_world

ROWS = scaled(100_000)
RATE = 20_000
ROUNDS = 3
BACKLOG = Events("backlog", scaled(6_000_000), 200, ROWS, lookups=1)
FIRST = scaled(2_000_000)
PROFILES = {"latency": "", "realtime": "realtime_"}
"""And what their figures begin with."""

_FIRST_S, _WARM_AFTER_S, _WARM_S = 60, 60, 20
_LOOK_EVERY_S = 0.02
_RATE_EVERY_S = 0.25
_RATE_OVER_S = 2.0
_FULL_SPEED = 0.9
_DEADLINE_S = 300


def run() -> Figures:
    figures: dict[str, float] = {}
    with stage_world() as world:
        world.table("users", ROWS)
        say(f"filling a topic with {BACKLOG.count:,} events")
        BACKLOG.fill(world.stack.bootstrap_servers)
        for profile, prefix in PROFILES.items():
            say(f"profile: {profile}")
            found = {**_starts(world, profile), **_first_minute(world, profile), **_backlog(world, profile)}
            figures |= {f"{prefix}{name}": value for name, value in found.items()}
        streams = _streams_per_cpu_s(world)
    for prefix in PROFILES.values():
        figures[f"{prefix}first_2m_vs_kafka_streams"] = figures[f"{prefix}first_2m_per_cpu_s"] / streams
    return {**figures, "kafka_streams_first_2m_per_cpu_s": streams}


def _starts(world: StageWorld, profile: str) -> Figures:
    waits, costs = [], []
    for number in range(1, ROUNDS + 1):
        with _started(world, profile, _one_event(world)) as (_, waited_s, used):
            waits.append(waited_s)
            costs.append(used())
        say(f"start {number}/{ROUNDS}: first output after {waits[-1]:.1f} s, {costs[-1]:.1f} s of processor time")
    return {"first_output_s": statistics.median(waits), "first_output_cpu_s": statistics.median(costs)}


def _first_minute(world: StageWorld, profile: str) -> Figures:
    events = _one_event(world)
    with (
        _started(world, profile, events) as (name, _, _),
        traffic(world.stack.bootstrap_servers, events.topic, world.output_of(name), ROWS, looked_up=True) as flow,
    ):
        flow.flow(RATE)
        first = flow.seen(_FIRST_S)
        say(f"first minute: {first}")
        time.sleep(_WARM_AFTER_S)
        warm = flow.seen(_WARM_S)
        say(f"warm: {warm}")
        flow.flow(0)
    return {
        "first_minute_p95_ms": first.p95_ms,
        "warm_p95_ms": warm.p95_ms,
        "first_minute_p95_vs_warm": first.p95_ms / warm.p95_ms,
    }


def _backlog(world: StageWorld, profile: str) -> Figures:
    with _started(world, profile, BACKLOG) as (name, _, used):
        per_cpu_s, to_full_speed_s = _read_whole(world, name, used)
    say(f"backlog: {per_cpu_s:,.0f} events a CPU second, full speed after {to_full_speed_s:.1f} s")
    world.forget(name)
    return {"first_2m_per_cpu_s": per_cpu_s, "to_full_speed_s": to_full_speed_s}


def _read_whole(world: StageWorld, name: str, used: Callable[[], float]) -> tuple[float, float]:
    """Events a processor second up to the first 2 M, with the start; and from the first output to the warm rate."""
    curve: list[tuple[float, int]] = []
    per_cpu_s = 0.0
    end = time.monotonic() + _DEADLINE_S
    while not curve or curve[-1][1] < BACKLOG.count:
        curve.append((time.monotonic(), world.done(name)))
        if not per_cpu_s and curve[-1][1] >= FIRST:
            per_cpu_s = curve[-1][1] / used()
        if time.monotonic() > end:
            raise RuntimeError(f"{curve[-1][1]} events of {BACKLOG.count} after {_DEADLINE_S} s")
        time.sleep(_RATE_EVERY_S)
    return per_cpu_s, _to_full_speed_s(curve)


def _to_full_speed_s(curve: list[tuple[float, int]]) -> float:
    began, (ended, total) = curve[0][0], curve[-1]
    half = next(at for at, count in curve if count >= total / 2)
    warm = total / 2 / (ended - half)
    for at, count in curve:
        later = next((each for each in curve if each[0] >= at + _RATE_OVER_S), None)
        if later is None:
            break
        if (later[1] - count) / (later[0] - at) >= _FULL_SPEED * warm:
            return at - began
    return ended - began


def _streams_per_cpu_s(world: StageWorld) -> float:
    folder = world.folder / "streams"
    folder.mkdir()
    application = StreamsApp.compiled(folder).joining(world.stack.bootstrap_servers, "users")
    name = world.stage(BACKLOG, ["users"], "throughput")
    with closing(application):
        application.begin(BACKLOG.topic, world.dead_letters_of(name), world.output_of(name))
        per_cpu_s, _ = _read_whole(world, name, application.cpu_seconds)
        application.end()
    say(f"Kafka Streams: {per_cpu_s:,.0f} events a CPU second")
    return per_cpu_s


def _one_event(world: StageWorld) -> Events:
    """A topic of its own."""
    topic = f"events{len(world.document['stages'])}"
    world.topics.create(topic, partitions=PARTITIONS)
    producer = Producer({"bootstrap.servers": world.stack.bootstrap_servers})
    producer.produce(topic, json.dumps({"key_0": key_of(1), "sent": time.time_ns()}).encode())
    producer.flush()
    return Events(topic, 1, 0, ROWS, lookups=1)


@contextmanager
def _started(world: StageWorld, profile: str, events: Events) -> Iterator[tuple[str, float, Callable[[], float]]]:
    """`enrich run` with events that wait for it, without an agent: the stage's name, what its first output took, and
    the processor time of all its processes so far."""
    name = world.stage(events, ["users"], profile)
    began = time.monotonic()
    command = [sys.executable, "-m", "enrich", "run", name, "-c", str(world.file)]
    with (world.folder / f"{name}.log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, cwd=world.folder)

    def used() -> float:
        return family_cpu_seconds(process.pid) + world.agent_cpu_seconds()

    try:
        while not sum(world.records_of([world.output_of(name)]).values()):
            if process.poll() is not None or time.monotonic() - began > _DEADLINE_S:
                raise RuntimeError((world.folder / f"{name}.log").read_text(encoding="utf-8"))
            time.sleep(_LOOK_EVERY_S)
        yield name, time.monotonic() - began, used
    finally:
        process.terminate()
        process.wait(_DEADLINE_S)
        remove_agent(world.pipeline)
