"""How a stage's throughput changes with the rows of its table, the number of look-ups, the size of events, the number
of executors and with deterministic replay. Besides figures it writes bench/plots: a table, and a picture for each."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.harness import Figures, machine, say
from bench.stage.events import PARTITIONS, Events, check_output, scaled
from bench.stage.host import StageHost, stage_host
from bench.stage.plots import Curve, write_plots
from bench.stage.world import Pass, StageWorld, stage_world

PLOTS = Path(__file__).parents[1] / "plots"

_ROWS = {"rows_10k": 10_000, "rows_1m": scaled(1_000_000), "rows_10m": scaled(10_000_000)}
_USUAL = "rows_1m"
_LOOKUPS = (1, 2, 4, 8)
_BYTES = (100, 1_000, 10_000)
_EXECUTORS = (1, 2)
_REPLAYS = ("latest", "deterministic")
_KEPT = "kept"
"""A table with history, which pins need."""
_EVENTS = 1_000_000
_LARGEST_TOPIC = 500_000_000


@dataclass(frozen=True)
class Point:
    """One measured combination."""

    size: float
    """On the axis."""
    name: str
    done: Pass
    bytes_each: int


def run() -> Figures:
    with stage_world(memory="6GiB") as world:
        for table, rows in _ROWS.items():
            world.table(table, rows)
        world.table(_KEPT, _ROWS[_USUAL], history="1h")
        world.start_agent()
        with stage_host(world.file) as host:
            points = {
                "rows": list(_by_rows(world, host)),
                "lookups": list(_by_lookups(world, host)),
                "bytes": list(_by_bytes(world, host)),
                "replay": list(_by_replay(world, host)),
            }
        points["executors"] = list(_by_executors(world))
    _write(points)
    figures: dict[str, float] = {}
    for each in points.values():
        for point in each:
            figures[f"{point.name}_per_s"] = point.done.per_second
            figures[f"{point.name}_us_per_event"] = 1e6 / point.done.per_cpu_second
    return figures


def _by_rows(world: StageWorld, host: StageHost) -> Iterator[Point]:
    for table, rows in _ROWS.items():
        events = _filled(world, Events(table + ".events", scaled(_EVENTS), 200, rows, lookups=1))
        yield _point(world, host, rows, table, events, [table])
        world.topics.delete(events.topic)


def _by_lookups(world: StageWorld, host: StageHost) -> Iterator[Point]:
    wide = Events("wide", scaled(_EVENTS), 400, _ROWS[_USUAL], lookups=max(_LOOKUPS))
    _filled(world, wide)
    for count in _LOOKUPS:
        yield _point(world, host, count, f"lookups_{count}", wide, [_USUAL] * count)
    world.topics.delete(wide.topic)


def _by_bytes(world: StageWorld, host: StageHost) -> Iterator[Point]:
    for size in _BYTES:
        count = min(scaled(_EVENTS), scaled(_LARGEST_TOPIC // size))
        events = _filled(world, Events(f"bytes_{size}", count, size, _ROWS[_USUAL], lookups=1))
        yield _point(world, host, size, events.topic, events, [_USUAL])
        world.topics.delete(events.topic)


def _by_replay(world: StageWorld, host: StageHost) -> Iterator[Point]:
    events = _filled(world, Events("replay", scaled(_EVENTS), 200, _ROWS[_USUAL], lookups=1))
    for number, replay in enumerate(_REPLAYS):
        yield _point(world, host, number, f"replay_{replay}", events, [_KEPT], replay=replay)
    world.topics.delete(events.topic)


def _by_executors(world: StageWorld) -> Iterator[Point]:
    events = _filled(world, Events("executors", scaled(_EVENTS), 200, _ROWS[_USUAL], lookups=1))
    for count in _EXECUTORS:
        with stage_host(world.file, master=f"local-cluster[{count},1,1024]") as host:
            yield _point(world, host, count, f"executors_{count}", events, [_USUAL])


def _filled(world: StageWorld, events: Events) -> Events:
    say(f"filling the topic {events.topic}: {events.count:,} events of {events.bytes_each:,} bytes")
    events.fill(world.stack.bootstrap_servers)
    return events


def _point(
    world: StageWorld,
    host: StageHost,
    size: float,
    name: str,
    events: Events,
    lookups: Sequence[str],
    **section: Any,
) -> Point:
    """Of two passes the second: the first one warms up."""
    for _ in range(2):
        stage = world.stage(events, lookups, "throughput", **section)
        host.begin(stage)
        done = world.measured(
            stage, events.count, lambda: host.cpu_seconds() + world.agent_cpu_seconds(), host.require_running
        )
        host.end()
        check_output(world.stack.bootstrap_servers, world.output_of(stage), world.objects_of(lookups))
        world.forget(stage)
    say(f"{name}: {done.per_second:,.0f} events/s, {1e6 / done.per_cpu_second:.1f} us of a core each")
    return Point(size, name, done, events.bytes_each)


_TITLES = {
    "rows": ("Rows of the table", True),
    "lookups": ("Look-ups of an event", False),
    "bytes": ("Bytes of an event", True),
    "executors": ("Executors of one core on one host", False),
}


def _write(points: dict[str, list[Point]]) -> None:
    PLOTS.mkdir(exist_ok=True)
    curves = [
        Curve(
            name,
            *_TITLES[name],
            [point.size for point in each],
            [point.done.per_second for point in each],
            [1e6 / point.done.per_cpu_second for point in each],
        )
        for name, each in points.items()
        if name in _TITLES
    ]
    write_plots(curves, PLOTS)
    facts = machine()
    lines = [
        "# How a stage grows",
        "",
        f"Written by `python -m bench stage_growth` at {facts['time']}, on {facts['cores']} cores with the broker",
        f"({facts['processor']}, load {facts['load_1m']}).",
        f"Events of 200 bytes (those with several keys: 400), {PARTITIONS} partitions, a table of "
        f"{_ROWS[_USUAL]:,} rows and one look-up where nothing else is said.",
        "",
        "| | events/s | MB/s | processor time an event, us |",
        "|---|---|---|---|",
    ]
    for name, each in points.items():
        for point in each:
            rate, cost = point.done.per_second, 1e6 / point.done.per_cpu_second
            title = (
                f"{_TITLES[name][0].lower()}: {point.size:,.0f}" if name in _TITLES else point.name.replace("_", ": ")
            )
            lines.append(f"| {title} | {rate:,.0f} | {rate * point.bytes_each / 1e6:,.0f} | {cost:.1f} |")
    lines += ["", *(f"![{_TITLES[name][0]}](growth_{name}.png)" for name in _TITLES)]
    (PLOTS / "README.md").write_text("\n".join(lines) + "\n", encoding="utf-8")
