"""The demo's servers, tables, programs and customers: started in front of the viewer, and all ended afterwards."""

import base64
import json
import os
import secrets
import signal
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import redis

from enrich.base.errors import ConfigError, Fatal, Unreachable
from enrich.base.processes import Identity, send
from enrich.config import Pipeline, load
from enrich.demo.customers import CUSTOMERS, Customers
from enrich.demo.pages import Routes
from enrich.demo.places import Places
from enrich.demo.plays import Plays
from enrich.demo.programs import Program
from enrich.demo.proof import Proof
from enrich.demo.sender import Sender, Target
from enrich.demo.watch import Watch
from enrich.dev import Addresses, temporary_stack
from enrich.dev.servers.ports import choose
from enrich.dev.servers.server import HOST
from enrich.host.ipc.header import Header
from enrich.host.ipc.store_paths import paths_of
from enrich.host.reader.spawn import living_agent, stop_agent
from enrich.kafka import COMPACTED, Connection, DeliveringProducer, Topics, librdkafka_settings, new_admin_client

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "demo"
STAGE, INGEST, EXPEL, RETRIER, SINK = "stage", "ingest", "expel", "retrier", "customers"

_STAGE_NAME, _ENTRY = "enrich", "plays"
_PARTITIONS = 2
_LOOK_EVERY_S = 0.02
_START_S = 300.0
_WARM_MS = 1_000.0
_RUNS = "the stage runs"
"""A line of the stage's log."""
# The stage lives for a minute: code that is compiled well would be ready when it ends, and two cores do all the work.
_JVM = "spark.driver.extraJavaOptions=-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"


@dataclass
class DemoWorld:
    """Made by `demo_world`."""

    pipeline: Pipeline
    connection: Connection
    topics: Topics
    programs: Mapping[str, Program]
    customers: Customers
    sender: Sender
    watch: Watch
    _addresses: Addresses
    is_warm: bool = False
    """Until then figures of lag say how a JVM starts, and nothing about the product."""

    def wait_until(self, condition: Callable[[], bool], what: str, deadline_s: float = _START_S) -> None:
        """Raises Fatal, with the last lines of its log, if a program ends, or if a play is refused; and Unreachable at
        the deadline."""
        if not self.comes(condition, deadline_s):
            raise Unreachable(f"{what}: not within {deadline_s:g} s", next_step="is this machine very busy?")

    def comes(self, condition: Callable[[], bool], deadline_s: float, every_s: float = _LOOK_EVERY_S) -> bool:
        """Whether it does within the deadline. Raises Fatal as `wait_until` does."""
        end = time.monotonic() + deadline_s
        while not condition():
            for program in self.programs.values():
                program.require_running()
            if self.sender.failure is not None:
                raise self.sender.failure
            if time.monotonic() > end:
                return False
            time.sleep(every_s)
        return True

    def is_running(self) -> bool:
        """Whether the stage's tables are loaded and it reads events, ingest listens, and all routes deliver."""
        routes = self.watch.figures().customers.values()
        runs = _RUNS in self.programs[STAGE].log()
        return runs and self.sender.is_listened_to() and all(customer.route.is_up for customer in routes)

    def warm_up(self, patience_s: float) -> bool:
        """Waits until lag is low, and then lets plays come at the full rate. Returns False if it stays high: on a
        machine that is busy with other things, more plays would only wait for each other."""
        is_low = self.comes(self._lag_is_low, patience_s)
        self.is_warm = True
        if is_low:
            self.sender.speed_up()
        return is_low

    def _lag_is_low(self) -> bool:
        lag = self.watch.figures().p95_ms
        return lag is not None and lag < _WARM_MS

    def put(self, table: str, key: str, row: dict[str, object]) -> None:
        """Returns once the row is acknowledged."""
        with DeliveringProducer(self.connection, **{"linger.ms": 0}) as producer:
            producer.produce(str(self.pipeline.tables[table].topic), key.encode(), json.dumps(row).encode())

    def agent(self) -> Header | None:
        return living_agent(paths_of(self.pipeline))

    def behind_s(self) -> float | None:
        """The largest age of the tables' answers."""
        header = self.agent()
        throughs = [] if header is None else [table.complete_through for table in header.tables.values()]
        known = [through for through in throughs if through is not None]
        return max(0.0, time.time() - min(known) / 1000) if known else None

    def kill_agent(self) -> int:
        """Kills the agent with kill -9. Returns its process id."""
        header = self.agent()
        if header is None:
            raise Fatal("the demo's agent is not running")
        send(Identity(header.pid, header.started), signal.SIGKILL)
        return header.pid

    def stop_redis(self) -> None:
        with suppress(redis.ConnectionError):  # a Redis that shuts down just closes the connection
            redis.Redis.from_url(self._addresses.redis_url).shutdown(nosave=True)

    def redis_answers(self) -> bool:
        try:
            return bool(redis.Redis.from_url(self._addresses.redis_url).ping())
        except redis.ConnectionError:
            return False

    def missing(self, acknowledged: Places, customer: str) -> Places:
        """What is neither with the customer nor a dead letter by now."""
        return acknowledged - (self.customers.delivered(customer) | self.watch.dead)

    def repeated(self) -> Mapping[str, int]:
        """By customer: events that came again."""
        return {name: int(self.customers.seen(name).get("duplicates", 0)) for name in CUSTOMERS}

    def proof(self) -> Proof:
        return Proof(
            acknowledged=self.sender.acknowledged,
            written=sum(self.topics.end_offsets(self.pipeline.ingest[_ENTRY].topic).values()),
            delivered={name: self.customers.delivered(name) for name in CUSTOMERS},
            dead=self.watch.dead,
            repeated=self.repeated(),
        )

    def drain(self) -> Mapping[str, int]:
        """Ends the programs as a deployment would: what is under way is finished. Returns their exit codes."""
        names = (STAGE, INGEST, EXPEL, RETRIER)
        for name in names:
            self.programs[name].ask_to_end()
        return {name: self.programs[name].end() for name in names}


@contextmanager
def demo_world(*, quiet: bool = False) -> Iterator[DemoWorld]:
    """Everything is started except the plays. Nothing of it is left after the block."""
    if not EXAMPLE.is_dir():
        raise ConfigError(
            "the demo's configuration is missing", where=str(EXAMPLE), next_step="run it in a checkout of enrich"
        )
    with ExitStack() as held:
        addresses = held.enter_context(temporary_stack(quiet=quiet))
        folder = Path(held.enter_context(tempfile.TemporaryDirectory(prefix="enrich-demo-")))
        environment = _environment(addresses, folder)
        pipeline = load(EXAMPLE / "pipeline.yaml", environment)
        programs = _programs(environment, folder)
        held.callback(_end, programs, pipeline)
        # Java takes longest to start; while it does, the others come up, and the tables are filled.
        connection = librdkafka_settings(pipeline.kafka)
        topics = Topics(new_admin_client(connection))
        _make_topics(pipeline, topics)
        for program in programs.values():
            program.start()
        keys = _fill(pipeline, connection)
        customers = Customers(HOST, _port(environment["DEMO_CUSTOMERS"]))
        received, pages = _received(folder), pipeline.pages
        received.touch()
        sender = Sender(_target(pipeline), Plays(keys["users"], keys["devices"]))
        routes = Routes(pipeline.name, pages.expel, pages.retrier)
        watch = Watch(connection, topics, str(pipeline.stages[_STAGE_NAME].dlq), received, routes)
        held.callback(watch.stop)
        held.callback(sender.give_up)
        watch.start()
        world = DemoWorld(pipeline, connection, topics, programs, customers, sender, watch, addresses)
        yield world


def _environment(addresses: Addresses, folder: Path) -> dict[str, str]:
    """What the pipeline's file takes from it, on free ports and with secrets that nobody knows."""
    listen, customers, *pages = choose(5, [])
    signing = [f"whsec_{base64.b64encode(secrets.token_bytes(32)).decode()}" for _ in CUSTOMERS]
    return {
        **os.environ,
        "KAFKA_BOOTSTRAP_SERVERS": addresses.bootstrap_servers,
        "DEMO_DIR": str(folder),
        "DEMO_PORT": str(listen),
        "DEMO_TOKEN": secrets.token_urlsafe(),
        "DEMO_CUSTOMERS": f"http://{HOST}:{customers}",
        **{f"DEMO_PAGE_{number}": str(page) for number, page in enumerate(pages, start=1)},
        **dict(zip(("ACME_SECRET", "GLOBEX_SECRET"), signing, strict=True)),
        "ENRICH_SINK_SECRET": " ".join(signing),
    }


def _programs(environment: Mapping[str, str], folder: Path) -> dict[str, Program]:
    file = str(EXAMPLE / "pipeline.yaml")
    listen = environment["DEMO_CUSTOMERS"].removeprefix("http://")
    commands = {
        STAGE: ["run", _STAGE_NAME, "-c", file, "--master", "local[2]", "--conf", _JVM],
        INGEST: ["ingest", "run", "-c", file],
        EXPEL: ["expel", "run", "-c", file],
        RETRIER: ["retrier", "run", "-c", file],
        SINK: ["dev", "sink", "--listen", listen, "--out", str(_received(folder))],
    }
    return {name: Program(name, words, environment, folder) for name, words in commands.items()}


def _received(folder: Path) -> Path:
    return folder / "received.jsonl"


def _port(url: str) -> int:
    return int(url.rpartition(":")[2])


def _target(pipeline: Pipeline) -> Target:
    entry = pipeline.ingest[_ENTRY]
    token = "" if not entry.tokens else entry.tokens[0].get_secret_value()
    return Target(HOST, _port(entry.listen), entry.path, token)


def _make_topics(pipeline: Pipeline, topics: Topics) -> None:
    stage = pipeline.stages[_STAGE_NAME]
    for topic in (*stage.source.all_topics, *stage.outputs, str(stage.dlq)):
        topics.create(topic, partitions=_PARTITIONS)
    for table in pipeline.tables.values():
        topics.create(str(table.topic), partitions=_PARTITIONS, config=COMPACTED)


def _fill(pipeline: Pipeline, connection: Connection) -> dict[str, list[str]]:
    """Writes the rows of the tables. Returns the keys of each table."""
    keys: dict[str, list[str]] = {}
    with DeliveringProducer(connection) as producer:
        for name, table in pipeline.tables.items():
            keys[name] = []
            for line in (EXAMPLE / f"{name}.jsonl").read_text(encoding="utf-8").splitlines():
                row = json.loads(line)
                keys[name].append(row.pop("key"))
                producer.produce(str(table.topic), keys[name][-1].encode(), json.dumps(row).encode())
    return keys


def _end(programs: Mapping[str, Program], pipeline: Pipeline) -> None:
    for program in programs.values():
        program.ask_to_end()
    for program in programs.values():
        program.end()
    # The stage's workers started the agent.
    header = living_agent(paths_of(pipeline))
    if header is not None:
        stop_agent(paths_of(pipeline), header, deadline_s=30)
