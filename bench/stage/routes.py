"""A stage with five routes beside one with one route, and beside Kafka Streams with the same five; and what tallies
cost, of a stage with one output and of that with five routes.

2 M JSON events of 200 bytes, a table of 1 M rows. All read the same topic. After each pass the records of every output
are counted, and a sample is compared with what a plain model says.
"""

import json
import statistics
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from typing import Any

from bench.harness import Figures, say
from bench.java.kafka_streams import StreamsApp, StreamsJoin
from bench.stage.events import PARTITIONS, Events, check_output, scaled
from bench.stage.host import StageHost, stage_host
from bench.stage.routed import FIVE, ONE, SCHEMA, Expected, on_five, on_one
from bench.stage.world import Pass, StageWorld, per_cpu_second, per_second, ratio_of, stage_world
from enrich.dev.servers.ports import choose
from enrich.kafka import read_topic
from enrich.tally import Merged, Node, NodeKind, decoded

ROWS = scaled(1_000_000)
EVENTS = scaled(2_000_000)
ROUNDS = 4
"""After one that warms up. Their number is even: each is in the opposite order of the one before, for what comes first
on a machine that grows warm, or tired, has an advantage of some percent, and tallies cost less."""

_TABLE = "users"
_TALLIES = "bench.tallies"
_JVM = "kafka_streams"


@dataclass(frozen=True)
class Contender:
    """A stage with these routes; none: with one output for whole events."""

    routes: Sequence[Mapping[str, str]] = ()
    expected: Expected | None = None
    tallies: bool = False


def run() -> Figures:
    with stage_world() as world, ExitStack() as held:
        world.table(_TABLE, ROWS)
        events = Events("events", EVENTS, 200, ROWS, lookups=2)
        say(f"filling the topic {events.topic}: {events.count:,} events")
        events.fill(world.stack.bootstrap_servers)
        world.start_agent()
        world.topics.create(_TALLIES, partitions=PARTITIONS)
        five, one = Expected(events, on_five), Expected(events, on_one)
        contenders = {
            "one_route": Contender(ONE, one),
            "routes": Contender(FIVE, five),
            "routes_tallied": Contender(FIVE, five, tallies=True),
            "sink": Contender(),
            "sink_tallied": Contender(tallies=True),
        }
        passes = _Passes(world, events, held)
        work: dict[str, Callable[[], Pass]] = {
            name: lambda contender=contender: passes.stage(contender)  # type: ignore[misc] # a default binds the value
            for name, contender in contenders.items()
        }
        work[_JVM] = lambda: passes.streams(five)
        rounds = [_round(number, work) for number in range(ROUNDS + 1)]
    return _figures(rounds[1:])


def _round(number: int, work: Mapping[str, Callable[[], Pass]]) -> Mapping[str, Pass]:
    done: dict[str, Pass] = {}
    for name in [*work][:: -1 if number % 2 else 1]:
        done[name] = work[name]()
        rates = f"{done[name].per_second:,.0f} events/s, {done[name].per_cpu_second:,.0f} a CPU second"
        say(f"round {number}/{ROUNDS} {name}: {rates}")
    return done


class _Passes:
    """All that is kept running from round to round, so that each contender is warm."""

    def __init__(self, world: StageWorld, events: Events, held: ExitStack) -> None:
        self._world = world
        self._events = events
        self._host: StageHost = held.enter_context(stage_host(world.file))
        (self._port,) = choose(1, [])
        folder = world.folder / "streams"
        folder.mkdir()
        self._streams: StreamsJoin = StreamsApp.compiled(folder).routing(world.stack.bootstrap_servers, _TABLE)
        held.callback(self._streams.close)

    def stage(self, contender: Contender) -> Pass:
        world, host = self._world, self._host
        world.document["tallies"] = contender.tallies
        name = self._new(contender.routes)
        expected = contender.expected
        host.begin(name)
        done = world.measured(
            name,
            self._events.count,
            lambda: host.cpu_seconds() + world.agent_cpu_seconds(),
            host.require_running,
            None if expected is None else sum(expected.records.values()),
        )
        self._require_workers_only()
        host.end()
        if expected is None:
            check_output(world.stack.bootstrap_servers, world.output_of(name), world.objects_of([_TABLE]))
        else:
            self._check(name, contender.routes, expected)
        if contender.tallies:
            self._check_tallies(name, expected)
        world.forget(name)
        return done

    def streams(self, expected: Expected) -> Pass:
        world = self._world
        name = self._new(FIVE)
        self._streams.begin(self._events.topic, world.dead_letters_of(name), *world.outputs_of(name))
        records = sum(expected.records.values())
        done = world.measured(name, self._events.count, self._streams.cpu_seconds, records=records)
        self._streams.end()
        self._check(name, FIVE, expected)
        world.forget(name)
        return done

    def _new(self, routes: Sequence[Mapping[str, str]]) -> str:
        source = {"topic": self._events.topic, "format": "json", "schema": SCHEMA}
        rest: dict[str, Any] = {"otherwise": "drop"} if routes else {}
        return self._world.stage(
            self._events, [_TABLE], "throughput", routes, source=source, metrics_port=self._port, **rest
        )

    def _check(self, name: str, routes: Sequence[Mapping[str, str]], expected: Expected) -> None:
        world = self._world
        outputs = world.outputs_of(name)
        topics = {route["name"]: topic for route, topic in zip(routes, outputs, strict=True)}
        expected.check(world.stack.bootstrap_servers, topics, world.records_of(outputs))

    def _require_workers_only(self) -> None:
        """Spark must not evaluate anything: that would be another measurement."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self._port}/status", timeout=10) as answer:
            joined_by = json.load(answer)["joined_by"]
        if joined_by != "workers":
            raise AssertionError(f"Spark evaluates expressions of the stage: {joined_by}")

    def _check_tallies(self, name: str, expected: Expected | None) -> None:
        """What the stage has said is what became of all events."""
        topics, merged = self._world.topics, Merged()
        node = Node(self._world.pipeline.name, NodeKind.stage, name)
        connection = {"bootstrap.servers": self._world.stack.bootstrap_servers}
        first, last = topics.start_offsets(_TALLIES), topics.end_offsets(_TALLIES)
        for message in (each for batch in read_topic(connection, _TALLIES, first, last) for each in batch):
            report = decoded(message.value() or b"")
            if report.node == node:
                merged.take(report)
        count = self._events.count
        wanted = {"": count} if expected is None else {"": count - expected.untaken, **expected.records}
        of_all = merged.of(node)
        found = {route: len(merged.of(node, route).went) for route in wanted}
        if found != wanted or len(of_all.came) != count or len(of_all.went | of_all.dropped) != count:
            raise AssertionError(f"by its tallies {len(of_all.came)} events came to {name}, and {found} went")


def _figures(rounds: Sequence[Mapping[str, Pass]]) -> Figures:
    ratio = partial(ratio_of, rounds)

    def median(name: str, rate: Callable[[Pass], float]) -> float:
        return statistics.median(rate(passes[name]) for passes in rounds)

    figures = {
        "events_per_s": median("routes", per_second),
        "per_cpu_s": median("routes", per_cpu_second),
        "vs_one_route": ratio("routes", "one_route", per_second),
        "vs_one_route_cpu": ratio("routes", "one_route", per_cpu_second),
        "vs_kafka_streams": ratio("routes", _JVM, per_cpu_second),
        "tally_cost": 1 - ratio("sink_tallied", "sink", per_cpu_second),
        "tally_cost_routes": 1 - ratio("routes_tallied", "routes", per_cpu_second),
    }
    for name in rounds[0]:
        if name != "routes":
            figures[f"{name}_per_s"] = median(name, per_second)
            figures[f"{name}_per_cpu_s"] = median(name, per_cpu_second)
    return figures
