"""A stage beside its ceiling and its peers: 3 M JSON events of 200 bytes, a table of 1 M rows, uniform and skewed keys.

The ceiling is the same stage with the look-ups replaced by a struct of literals. Redis and the broadcast join get a
stage's parsing, routing and output too, that of `evaluated` where they need Spark's columns; Kafka Streams is a program
of its own. All read the same topics and write the same JSON, and a sample of every output is compared with what it has
to be. `evaluated` is our stage as it is where Spark has expressions to evaluate.
"""

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import redis

from bench.harness import Figures, say
from bench.java.kafka_streams import StreamsApp, StreamsJoin
from bench.kit.metadata import key_of, row_of
from bench.stage.contenders import BROADCAST, EVALUATED, LITERAL, OURS, REDIS_GET, REDIS_MGET, ROW, WITH_TABLES
from bench.stage.events import Events, Row, check_output, row_of_key, scaled
from bench.stage.host import StageHost, stage_host
from bench.stage.world import Pass, StageWorld, per_cpu_second, per_second, ratio_of, stage_world
from enrich.codecs import JsonDecoder

ROWS = scaled(1_000_000)
EVENTS = scaled(3_000_000)
FEW_EVENTS = scaled(150_000)
"""For one GET an event, of which 3 M would take minutes. Rates do not depend on how many there are."""

_TABLES = ("users", "devices", "sites")
_AT_A_TIME = 50_000


@dataclass(frozen=True)
class Contender:
    """A stage whose look-ups are done by `how`, over so many tables."""

    how: str
    tables: int = 1
    where: str = ""
    profile: str = "throughput"


def run() -> Figures:
    with stage_world() as world, ExitStack() as held:
        for table in _TABLES:
            world.table(table, ROWS)
        uniform = Events("uniform", EVENTS, 200, ROWS)
        skewed = replace(uniform, topic="skewed", skewed=True)
        few = replace(uniform, topic="few", count=FEW_EVENTS)
        few_skewed = replace(few, topic="few_skewed", skewed=True)
        for events in (uniform, skewed, few, few_skewed):
            say(f"filling the topic {events.topic}: {events.count:,} events")
            events.fill(world.stack.bootstrap_servers)
        world.start_agent()
        peers = _Peers(world, held)
        spark: Mapping[str, Contender] = {
            "ours": Contender(OURS),
            "realtime": Contender(OURS, profile="realtime"),
            "ceiling": Contender(LITERAL),
            "evaluated": Contender(EVALUATED),
            "ours_three": Contender(OURS, 3),
            "ceiling_three": Contender(LITERAL, 3),
            "broadcast": Contender(BROADCAST, where=_parquet(world.folder)),
            "redis_mget": Contender(REDIS_MGET, where=world.stack.redis_url),
        }
        get = Contender(REDIS_GET, where=world.stack.redis_url)
        rounds: list[dict[str, Pass]] = []
        for title, events, some in (
            ("warming up", uniform, few),
            ("uniform keys", uniform, few),
            ("skewed keys", skewed, few_skewed),
        ):
            passes: dict[str, Pass] = {}
            for name, contender in spark.items():
                passes[name] = peers.told(f"{title}: {name}", lambda c=contender, e=events: peers.stage(c, e))  # type: ignore[misc] # a default binds the loop's value
            passes["redis_get"] = peers.told(f"{title}: redis_get", lambda e=some: peers.stage(get, e))  # type: ignore[misc] # the same
            passes["kafka_streams"] = peers.told(f"{title}: kafka_streams", lambda e=events: peers.streams(e))  # type: ignore[misc] # the same
            rounds.append(passes)
    return _figures(rounds[1:])


class _Peers:
    """All that is kept running from round to round, so that each contender is warm."""

    def __init__(self, world: StageWorld, held: ExitStack) -> None:
        self._world = world
        # Enough for a table that is broadcast; the others do not use it.
        settings = {"spark.driver.memory": "3g"}
        self._host: StageHost = held.enter_context(stage_host(world.file, settings=settings))
        self._streams = self._joining(world, held)
        self._redis = redis.Redis.from_url(world.stack.redis_url)
        held.callback(self._redis.close)
        _fill_redis(self._redis)

    def told(self, title: str, work: Callable[[], Pass]) -> Pass:
        done = work()
        say(f"{title}: {done.per_second:,.0f} events/s, {done.per_cpu_second:,.0f} a CPU second")
        return done

    def stage(self, contender: Contender, events: Events) -> Pass:
        world, host = self._world, self._host
        tables = _TABLES[: contender.tables]
        name = world.stage(events, tables, contender.profile)
        host.begin(name, contender.how, contender.where)

        def used() -> float:
            agent = world.agent_cpu_seconds() if contender.how in WITH_TABLES else 0.0
            return host.cpu_seconds() + agent + (self._redis_cpu_seconds() if "redis" in contender.how else 0.0)

        done = world.measured(name, events.count, used, host.require_running)
        host.end()
        self._checked(name, tables, _same_for_all if contender.how == LITERAL else row_of_key)
        return done

    def streams(self, events: Events) -> Pass:
        world = self._world
        name = world.stage(events, _TABLES[:1], "throughput")
        self._streams.begin(events.topic, world.dead_letters_of(name), world.output_of(name))
        done = world.measured(name, events.count, self._streams.cpu_seconds)
        self._streams.end()
        self._checked(name, _TABLES[:1], row_of_key)
        return done

    def _checked(self, name: str, tables: tuple[str, ...], expected: Callable[[str], Row]) -> None:
        world = self._world
        check_output(world.stack.bootstrap_servers, world.output_of(name), world.objects_of(tables), expected)
        world.forget(name)

    def _redis_cpu_seconds(self) -> float:
        info = self._redis.info("cpu")
        return float(info["used_cpu_user"]) + float(info["used_cpu_sys"])

    @staticmethod
    def _joining(world: StageWorld, held: ExitStack) -> StreamsJoin:
        folder = world.folder / "streams"
        folder.mkdir()
        application = StreamsApp.compiled(folder).joining(world.stack.bootstrap_servers, _TABLES[0])
        held.callback(application.close)
        return application


def _figures(rounds: list[dict[str, Pass]]) -> Figures:
    ratio = partial(ratio_of, rounds)
    figures = {
        "one_lookup_vs_ceiling": ratio("ours", "ceiling", per_second),
        "three_lookups_vs_ceiling": ratio("ours_three", "ceiling_three", per_second),
        "one_lookup_vs_ceiling_cpu": ratio("ours", "ceiling", per_cpu_second),
        "three_lookups_vs_ceiling_cpu": ratio("ours_three", "ceiling_three", per_cpu_second),
    }
    for peer in ("kafka_streams", "redis_get", "redis_mget", "broadcast", "evaluated"):
        figures[f"vs_{peer}"] = ratio("ours", peer, per_cpu_second)
    figures["realtime_vs_kafka_streams"] = ratio("realtime", "kafka_streams", per_cpu_second)
    for name in rounds[0]:
        for passes, keys in zip(rounds, ("uniform", "skewed"), strict=True):
            figures[f"{name}_{keys}_per_s"] = passes[name].per_second
            figures[f"{name}_{keys}_per_cpu_s"] = passes[name].per_cpu_second
    return figures


def _parquet(folder: Path) -> str:
    """The table's rows as a file for the broadcast join."""
    numbers = range(ROWS)
    columns = pa.schema([("plan", pa.string()), ("region", pa.string()), ("rps", pa.int32())])
    rows = JsonDecoder(columns).decode(pa.array([row_of(number) for number in numbers], pa.binary())).rows
    keys = pa.array([key_of(number) for number in numbers])
    file = folder / "users.parquet"
    pq.write_table(pa.table([keys, *rows.flatten()], names=["key", *columns.names]), file)
    return str(file)


def _fill_redis(client: "redis.Redis") -> None:
    for start in range(0, ROWS, _AT_A_TIME):
        client.mset({key_of(number): row_of(number) for number in range(start, min(start + _AT_A_TIME, ROWS))})


def _same_for_all(key: str) -> Row:  # noqa: ARG001 - that is what it is about
    return ROW
