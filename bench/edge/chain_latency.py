"""HTTP in to HTTP out at 5,000 events a second: ingest, a stage with one look-up, expel; broker, senders and endpoint
on the same cores. Each event is followed by its id: when its request was due, when the brokers had it in the topic
behind ingest, when in the topic behind the stage, and when the endpoint had it."""

import statistics
import subprocess
import sys
import time
import urllib.request
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from confluent_kafka.admin import (  # type: ignore[attr-defined]  # public, but not all marked so
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourceType,
)

from bench.edge.chain_ends import EVENTS_EACH, Ends, chain_ends
from bench.harness import Figures, family_cpu_seconds, say
from bench.stage.events import PARTITIONS, Events, scaled
from bench.stage.host import StageHost, stage_host
from bench.stage.world import StageWorld, stage_world
from enrich.dev.servers.ports import choose
from enrich.kafka import new_admin_client, read_topic

ROWS = scaled(100_000)
RATE = 5_000
ROUNDS = 3

_RAW, _ROLES = "events", ("ingest", "expel")
_NODES = ("ingest", "stage", "expel")
_WARM_S, _WARM_TIMES = 15, 6
_SETTLE_S, _MEASURED_S = 5, 15
_ID = b'"id":'
_ALL_THERE_S = 60
_READY_S = 120
_START_S = 300

Micros = npt.NDArray[np.int64]


@dataclass(frozen=True)
class _Chain:
    world: StageWorld
    host: StageHost
    ends: Ends
    output: str
    programs: Mapping[str, "subprocess.Popen[bytes]"]

    def require_running(self) -> None:
        self.host.require_running()
        for role, program in self.programs.items():
            if program.poll() is not None:
                raise RuntimeError(f"{role} ended with {program.returncode}")


def run() -> Figures:
    found: dict[str, list[float]] = defaultdict(list)
    with _chain() as chain:
        say("the first events")
        sent = chain.ends.send(RATE, 0.1)
        _received(chain, sent["first"], sent["end"] - sent["first"], _START_S)
        for _ in range(_WARM_TIMES):
            say(f"warming up: {_told(_measured(chain, _WARM_S, 0))}")
        for number in range(1, ROUNDS + 1):
            figures = _measured(chain, _SETTLE_S + _MEASURED_S, _SETTLE_S)
            say(f"round {number}/{ROUNDS}: {_told(figures)}")
            for name, value in figures.items():
                found[name].append(value)
    return {name: statistics.median(values) for name, values in found.items()}


@contextmanager
def _chain() -> Iterator[_Chain]:
    with ExitStack() as held:
        ends = held.enter_context(chain_ends())
        world = held.enter_context(stage_world())
        ports = dict(zip(("in", *_ROLES), choose(1 + len(_ROLES), []), strict=True))
        document = world.document
        document["pages"] = {role: f"127.0.0.1:{ports[role]}" for role in _ROLES}
        document["ingest"] = {
            "events": {
                "listen": f"127.0.0.1:{ports['in']}",
                "path": "/v1/events",
                "topic": _RAW,
                "format": "json",
                "key": "key_0",
            }
        }
        world.topics.create(_RAW, partitions=PARTITIONS)
        output = world.output_of("pass0")
        endpoint = {"http": {"url": f"http://127.0.0.1:{ends.port}/", "allow_private": True}}
        document["expel"] = {"out": {"topic": output, "to": endpoint}}
        world.table("users", ROWS)
        world.start_agent()
        stage = world.stage(Events(_RAW, 0, 0, ROWS, lookups=1), ["users"], "latency")
        _stamped_by_brokers(world, [_RAW, output])
        programs = {role: held.enter_context(_running(world, role)) for role in _ROLES}
        host = held.enter_context(stage_host(world.file))
        host.begin(stage)
        held.callback(host.end)
        chain = _Chain(world, host, ends, output, programs)
        for role in _ROLES:
            _wait_for_page(chain, ports[role])
        ends.connect(ports["in"], "/v1/events", ROWS)
        yield chain


def _stamped_by_brokers(world: StageWorld, topics: Sequence[str]) -> None:
    """The timestamp of a record is when the brokers had it, not when its producer made it."""
    admin = new_admin_client({"bootstrap.servers": world.stack.bootstrap_servers})
    entry = ConfigEntry("message.timestamp.type", "LogAppendTime", incremental_operation=AlterConfigOpType.SET)
    changes = [ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry]) for topic in topics]
    for future in admin.incremental_alter_configs(changes).values():
        future.result(timeout=30)


@contextmanager
def _running(world: StageWorld, role: str) -> Iterator["subprocess.Popen[bytes]"]:
    command = [sys.executable, "-m", "edge_service", role, "-c", str(world.file), "--log-level", "warning"]
    process = subprocess.Popen(command)
    try:
        yield process
    finally:
        process.terminate()
        process.wait(60)


def _wait_for_page(chain: _Chain, port: int) -> None:
    end = time.monotonic() + _READY_S
    while True:
        chain.require_running()
        try:
            urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz", timeout=5).close()
        except OSError:
            if time.monotonic() > end:
                raise
            time.sleep(0.2)
        else:
            return


def _measured(chain: _Chain, seconds: float, settle_s: float) -> dict[str, float]:
    """Sends for so long and follows all events that were due after `settle_s`. Raises RuntimeError if one is lost."""
    starts = {topic: chain.world.topics.end_offsets(topic) for topic in (_RAW, chain.output)}
    cpu_before = {role: family_cpu_seconds(program.pid) for role, program in chain.programs.items()}
    sent = chain.ends.send(RATE, seconds)
    if sent["refused"] or sent["unanswered"]:
        raise RuntimeError(f"{sent['refused']} requests were refused, {sent['unanswered']} not answered")
    first, count = sent["first"], sent["end"] - sent["first"]
    received = _received(chain, first, count, _ALL_THERE_S)
    cpu = {role: family_cpu_seconds(program.pid) - cpu_before[role] for role, program in chain.programs.items()}
    due = sent["began_us"] + (np.arange(count) // EVENTS_EACH * (EVENTS_EACH * 1_000_000 / RATE)).astype(np.int64)
    raw, out = (_appended(chain.world, topic, starts[topic], first, count) for topic in (_RAW, chain.output))
    counted = due >= sent["began_us"] + settle_s * 1_000_000
    marks = [due, raw, out, received]
    steps = {
        node: (after - before)[counted] / 1000 for node, before, after in zip(_NODES, marks, marks[1:], strict=False)
    }
    whole = (received - due)[counted] / 1000
    figures = _quantiles("", whole, (50, 95, 99))
    for node, step in steps.items():
        figures |= _quantiles(f"{node}_", step, (50, 95))
        figures[f"{node}_share"] = float(step.mean() / whole.mean())
    figures |= _quantiles("ack_", np.array(sent["ack_ms"][-int(counted.sum()) // EVENTS_EACH :]), (50, 99))
    figures |= {f"{role}_cpu_us_per_event": used / count * 1e6 for role, used in cpu.items()}
    return figures | {"late_p99_ms": sent["late_p99_ms"], "late_max_ms": sent["late_max_ms"]}


def _received(chain: _Chain, first: int, count: int, patience_s: float) -> Micros:
    """When each event came for the first time."""
    times = np.zeros(count, np.int64)
    end = time.monotonic() + patience_s
    while (missing := int((times == 0).sum())) and time.monotonic() < end:
        chain.require_running()
        time.sleep(0.1)
        ids, at = chain.ends.received()
        # In reverse, so that of events that came twice the first time is kept.
        place, came = np.array(ids[::-1], np.int64) - first, np.array(at[::-1], np.int64)
        new = np.zeros(count, np.int64)
        new[place[place >= 0]] = came[place >= 0]
        times = np.where(times == 0, new, times)
    if missing:
        raise RuntimeError(f"{missing} of {count} events did not come within {patience_s:g} s")
    return times


def _appended(world: StageWorld, topic: str, starts: Mapping[int, int], first: int, count: int) -> Micros:
    """When the brokers had each event in the topic, to the millisecond."""
    times = np.zeros(count, np.int64)
    connection = {"bootstrap.servers": world.stack.bootstrap_servers}
    for messages in read_topic(connection, topic, starts, world.topics.end_offsets(topic)):
        for message in messages:
            value = bytes(message.value() or b"")
            at = value.index(_ID) + len(_ID)
            times[int(value[at : value.index(b",", at)]) - first] = message.timestamp()[1] * 1000 + 500
    if not times.all():
        raise RuntimeError(f"{int((times == 0).sum())} of {count} events are not in {topic}")
    return times


def _quantiles(prefix: str, values: npt.NDArray[np.float64], percents: Sequence[int]) -> dict[str, float]:
    return {f"{prefix}p{percent}_ms": float(np.percentile(values, percent)) for percent in percents}


def _told(figures: Mapping[str, float]) -> str:
    shares = ", ".join(f"{node} {figures[f'{node}_share']:.0%}" for node in _NODES)
    whole = " ".join(f"p{percent} {figures[f'p{percent}_ms']:.0f}" for percent in (50, 95, 99))
    return f"{whole} ms: {shares}; the senders' lateness: p99 {figures['late_p99_ms']:.1f} ms"
