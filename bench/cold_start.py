"""The first minute of a stage: from the command to its first output on a host that has nothing yet, and how late events
are in the minute after that, beside the same stage when it is warm."""

import json
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

from confluent_kafka import Producer

from bench.agents import remove_agent
from bench.harness import Figures, family_cpu_seconds, say
from bench.metadata import key_of
from bench.stage_events import PARTITIONS, Events, scaled
from bench.stage_traffic import traffic
from bench.stage_world import StageWorld, stage_world

ROWS = scaled(100_000)
RATE = 20_000
ROUNDS = 3

_FIRST_S, _WARM_AFTER_S, _WARM_S = 60, 60, 20
_LOOK_EVERY_S = 0.02
_DEADLINE_S = 180


def run() -> Figures:
    with stage_world() as world:
        world.table("users", ROWS)
        waits, costs = [], []
        for number in range(1, ROUNDS + 1):
            with _started(world, "warm-up") as (_, waited_s, cpu_s):
                waits.append(waited_s)
                costs.append(cpu_s)
            say(f"start {number}/{ROUNDS}: first output after {waited_s:.1f} s, {cpu_s:.1f} s of processor time")
            remove_agent(world.pipeline)
        with _started(world, "measured") as (name, _, _):
            source, output = world.document["stages"][name]["source"]["topic"], world.output_of(name)
            with traffic(world.stack.bootstrap_servers, source, output, ROWS, looked_up=True) as flow:
                flow.flow(RATE)
                first = flow.seen(_FIRST_S)
                say(f"first minute: {first}")
                time.sleep(_WARM_AFTER_S)
                warm = flow.seen(_WARM_S)
                say(f"warm: {warm}")
                flow.flow(0)
        remove_agent(world.pipeline)
    return {
        "first_output_s": statistics.median(waits),
        "first_output_cpu_s": statistics.median(costs),
        "first_minute_p95_ms": first.p95_ms,
        "warm_p95_ms": warm.p95_ms,
        "first_minute_p95_vs_warm": first.p95_ms / warm.p95_ms,
    }


@contextmanager
def _started(world: StageWorld, how: str) -> Iterator[tuple[str, float, float]]:
    """`enrich run` with an event that waits for it: the stage's name, and what its first output took."""
    source = f"{how}{len(world.document['stages'])}"
    world.topics.create(source, partitions=PARTITIONS)
    name = world.stage(Events(source, 0, 0, ROWS, lookups=1), ["users"], "latency")
    producer = Producer({"bootstrap.servers": world.stack.bootstrap_servers})
    event = {"key_0": key_of(1), "sent": time.time_ns()}
    producer.produce(source, json.dumps(event).encode())
    producer.flush()
    began = time.monotonic()
    command = [sys.executable, "-m", "enrich", "run", name, "-c", str(world.file)]
    with (world.folder / f"{name}.log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, cwd=world.folder)
    try:
        while not sum(world.records_of([world.output_of(name)]).values()):
            if process.poll() is not None or time.monotonic() - began > _DEADLINE_S:
                raise RuntimeError((world.folder / f"{name}.log").read_text(encoding="utf-8"))
            time.sleep(_LOOK_EVERY_S)
        yield name, time.monotonic() - began, family_cpu_seconds(process.pid)
    finally:
        process.terminate()
        process.wait(_DEADLINE_S)
