"""What a stage costs that has no events, by its profile: shares of a core of its driver, executors and workers, and of
the broker beside it."""

import os
import time
from collections.abc import Mapping
from typing import Any

import psutil

from bench.harness import Figures, cpu_seconds, say
from bench.stage.events import Events
from bench.stage.host import stage_host
from bench.stage.world import StageWorld, stage_world

SECONDS = 30
_SETTLE_S = 15
_EVENTS, _ROWS = 2_000, 1_000
_STAGES: Mapping[str, Mapping[str, Any]] = {
    "realtime": {"slots": 1},
    "realtime_2_slots": {"slots": 2},
    "latency": {},
    "throughput": {},
}
"""By figure; the profile is its first word."""


def run() -> Figures:
    figures: dict[str, float] = {}
    with stage_world() as world:
        world.table("users", _ROWS)
        events = Events("events", _EVENTS, 200, _ROWS, lookups=1)
        events.fill(str(world.stack.bootstrap_servers))
        world.start_agent()
        say("without a stage")
        broker = _broker()
        before, began = cpu_seconds([broker]), time.monotonic()
        time.sleep(SECONDS)
        quiet = (cpu_seconds([broker]) - before) / (time.monotonic() - began)
        for name, section in _STAGES.items():
            figures |= _idle(world, events, name, section, broker, quiet)
    return figures


def _idle(
    world: StageWorld, events: Events, name: str, section: Mapping[str, Any], broker: int, quiet: float
) -> Figures:
    stage = world.stage(events, ["users"], name.split("_")[0], **section)
    say(f"an idle stage: {name}")
    with stage_host(world.file) as host:
        host.begin(stage)
        while world.done(stage) < _EVENTS:
            host.require_running()
            time.sleep(0.2)
        time.sleep(_SETTLE_S)
        used, at_broker, began = host.cpu_seconds(), cpu_seconds([broker]), time.monotonic()
        time.sleep(SECONDS)
        seconds = time.monotonic() - began
        shares = (host.cpu_seconds() - used) / seconds, (cpu_seconds([broker]) - at_broker) / seconds - quiet
        host.end()
    return {f"{name}_share": shares[0], f"{name}_broker_share": shares[1]}


def _broker() -> int:
    """Of this benchmark's own stack."""
    return next(
        each.pid for each in psutil.Process(os.getpid()).children(recursive=True) if "kafka.Kafka" in _line(each)
    )


def _line(process: psutil.Process) -> str:
    try:
        return " ".join(process.cmdline())
    except psutil.Error:
        return ""
