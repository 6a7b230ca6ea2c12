"""What an hour adds to the memory and to the open files of an agent and of stages, of both profiles: some that have
nothing to do, beside some at work, all on one machine. Without its warm-up, in which caches fill."""

import statistics
import subprocess
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any

import numpy as np
import psutil

from bench.harness import Figures, say
from bench.kit.agents import family, private_mib
from bench.kit.updates import Updates
from bench.stage.events import PARTITIONS, SCALE, Events, scaled
from bench.stage.host import StageHost, stage_host
from bench.stage.traffic import traffic
from bench.stage.world import StageWorld, stage_world
from enrich.host.ipc.store_paths import paths_of
from enrich.host.reader.spawn import living_agent

WARM_MINUTES, MINUTES = 15 * SCALE, 60 * SCALE
PROFILES: Mapping[str, Mapping[str, Any]] = {"realtime": {"slots": 1}, "latency": {}}
RATE, UPDATES = 500, 200
"""Events a second of each busy stage, and changes of the table that they look up."""

_ROWS = scaled(200_000)
_LOOK_EVERY_S = 5.0
_A_SLICE_S = 60.0
"""Of each, the least counts: what is free again a moment later is no growth."""
# All of the heap is there from the start, so that what its process grows by is no heap. That has a figure of its own.
_HEAP = {
    "spark.driver.memory": "768m",
    "spark.driver.extraJavaOptions": "-XX:+UseParallelGC -Xms768m -XX:+AlwaysPreTouch",
}

Processes = Mapping[str, list[int]]
"""By figure."""


def run() -> Figures:
    with ExitStack() as held:
        idle, busy = held.enter_context(stage_world()), held.enter_context(stage_world())
        stages = {"idle": _Stages(idle), "busy": _Stages(busy)}
        for each in stages.values():
            held.enter_context(each.running())
        updates = Updates(str(busy.stack.bootstrap_servers), "users", 10**9, per_second=UPDATES)
        held.enter_context(updates.flowing())
        held.enter_context(stages["busy"].flowing())
        seen = _Seen()
        began = time.monotonic()
        while (now := (time.monotonic() - began) / 60) < WARM_MINUTES + MINUTES:
            for name, each in stages.items():
                each.require_running()
                if now >= WARM_MINUTES:
                    seen.look({f"{name}_{what}": pids for what, pids in each.processes().items()}, now / 60)
            time.sleep(_LOOK_EVERY_S)
        done = stages["busy"].done()
    return {**seen.figures(), **{f"busy_{profile}_events": count for profile, count in done.items()}}


class _Stages:
    """An agent and a stage of each profile, each with a driver of its own."""

    def __init__(self, world: StageWorld) -> None:
        self._world = world
        self._hosts: dict[str, StageHost] = {}
        self._stages: dict[str, str] = {}

    @contextmanager
    def running(self) -> Iterator[None]:
        with ExitStack() as held:
            self._world.table("users", _ROWS)
            self._world.start_agent()
            for profile, section in PROFILES.items():
                events = Events(profile, 0, 0, _ROWS, lookups=1)
                self._world.topics.create(profile, partitions=PARTITIONS)
                self._stages[profile] = self._world.stage(events, ["users"], profile, **section)
                host = held.enter_context(stage_host(self._world.file, settings=_HEAP))
                host.begin(self._stages[profile])
                self._hosts[profile] = host
            yield
            for host in self._hosts.values():
                host.end()

    @contextmanager
    def flowing(self) -> Iterator[None]:
        servers = str(self._world.stack.bootstrap_servers)
        with ExitStack() as held:
            for profile, stage in self._stages.items():
                output = self._world.output_of(stage)
                held.enter_context(traffic(servers, profile, output, _ROWS, looked_up=True)).flow(RATE)
            yield

    def require_running(self) -> None:
        for host in self._hosts.values():
            host.require_running()

    def done(self) -> Mapping[str, int]:
        return {profile: self._world.done(stage) for profile, stage in self._stages.items()}

    def processes(self) -> Processes:
        agent = living_agent(paths_of(self._world.pipeline))
        if agent is None:
            raise RuntimeError("the agent ended")
        found = {"agent": family(agent.pid)}
        for profile, host in self._hosts.items():
            driver, *rest = family(host.pid)
            jvms = [pid for pid in rest if _is_java(pid)]
            found[f"{profile}_driver"] = [driver]
            found[f"{profile}_jvm"] = jvms
            found[f"{profile}_workers"] = [pid for pid in rest if pid not in jvms]
        return found


class _Seen:
    """The samples, by figure: hours, MiB, open files; of a JVM also the heap that is in use after a collection."""

    def __init__(self) -> None:
        self._memory: dict[str, list[tuple[float, float]]] = defaultdict(list)
        self._files: dict[str, list[int]] = defaultdict(list)
        self._heap: dict[str, list[tuple[float, float]]] = defaultdict(list)

    def look(self, processes: Processes, hours: float) -> None:
        for name, pids in processes.items():
            if name.endswith("_jvm") and self._is_due(name, hours):
                self._heap[name].append((hours, _live_heap_mib(pids[0])))
            self._memory[name].append((hours, private_mib(*pids)))
            self._files[name].append(sum(map(_open_files, pids)))

    def _is_due(self, name: str, hours: float) -> bool:
        return not self._heap[name] or hours - self._heap[name][-1][0] >= MINUTES / 60 / 12

    def figures(self) -> Figures:
        found: dict[str, float] = {}
        for name, samples in self._memory.items():
            least: dict[int, tuple[float, float]] = {}
            for hours, mib in samples:
                part = int(hours * 3600 / (_A_SLICE_S * SCALE))
                least[part] = min(least.get(part, (hours, mib)), (hours, mib), key=lambda sample: sample[1])
            found[f"{name}_mib"] = samples[-1][1]
            found[f"{name}_mib_per_h"] = _slope(list(least.values()))
            files = self._files[name]
            third = max(1, len(files) // 3)
            found[f"{name}_files"] = files[-1]
            found[f"{name}_files_added"] = statistics.median(files[-third:]) - statistics.median(files[:third])
            minutes = [round(mib, 1) for _, mib in least.values()]
            say(f"{name}: MiB by the minute {minutes}, files {files[:: len(files) // 12 or 1]}")
        for name, samples in self._heap.items():
            found[f"{name}_heap_mib_per_h"] = _slope(samples)
            say(f"{name}: heap in use, MiB {[round(mib, 1) for _, mib in samples]}")
        return found


def _slope(samples: list[tuple[float, float]]) -> float:
    hours, mib = np.array(samples).T
    return float(np.polyfit(hours, mib, 1)[0])


def _live_heap_mib(pid: int) -> float:
    """Makes the JVM collect all of its heap first."""
    told = subprocess.run(["jcmd", str(pid), "GC.class_histogram"], capture_output=True, text=True, check=True).stdout
    return int(told.split()[-1]) / 2**20


def _open_files(pid: int) -> int:
    try:
        return psutil.Process(pid).num_fds()
    except psutil.NoSuchProcess:
        return 0  # a load or a worker that has just ended


def _is_java(pid: int) -> bool:
    try:
        return psutil.Process(pid).name() == "java"
    except psutil.NoSuchProcess:
        return False
