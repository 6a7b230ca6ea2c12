"""The demo's servers, tables, stage and agent: started in front of the viewer, and all ended afterwards."""

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import redis

from enrich.base.errors import ConfigError, Fatal, Unreachable
from enrich.base.processes import Identity, send
from enrich.config import Pipeline, load
from enrich.demo.plays import Plays
from enrich.demo.watch import Watch
from enrich.dev import Addresses, temporary_stack
from enrich.host.ipc.header import Header
from enrich.host.ipc.store_paths import paths_of
from enrich.host.reader.spawn import living_agent, stop_agent
from enrich.kafka import COMPACTED, Connection, DeliveringProducer, Topics, librdkafka_settings, new_admin_client

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "demo"
STAGE = "enrich"

_PARTITIONS = 2
_LOOK_EVERY_S = 0.02
_START_S, _DRAIN_S = 300.0, 60.0
_WARM_MS, _WARM_S = 1_000.0, 30.0
_LAST_LINES = 5
_RUNS = "the stage runs"
"""A line of the stage's log."""


@dataclass
class DemoWorld:
    """Made by `demo_world`."""

    pipeline: Pipeline
    connection: Connection
    topics: Topics
    plays: Plays
    watch: Watch
    _addresses: Addresses
    _stage: "subprocess.Popen[bytes]"
    _log: Path
    is_warm: bool = False
    """Until then figures of lag say how a JVM starts, and nothing about the product."""

    def wait_until(self, condition: Callable[[], bool], what: str, deadline_s: float = _START_S) -> None:
        """Raises Fatal, with the last lines of its log, if the stage ends; and Unreachable at the deadline."""
        end = time.monotonic() + deadline_s
        while not condition():
            if self._stage.poll() is not None:
                words = self._log.read_text(encoding="utf-8", errors="replace").splitlines()[-_LAST_LINES:]
                raise Fatal(f"the demo's stage ended with {self._stage.returncode}: " + " | ".join(words))
            if time.monotonic() > end:
                raise Unreachable(f"{what}: not within {deadline_s:g} s", next_step="is this machine very busy?")
            time.sleep(_LOOK_EVERY_S)

    def stage_runs(self) -> bool:
        """Whether the stage's tables are loaded and it reads events."""
        return _RUNS in self._log.read_text(encoding="utf-8", errors="replace")

    def warm_up(self) -> bool:
        """Waits until lag is low, and then lets plays come at the full rate. Returns False if it stays high for half a
        minute: on a machine that is busy with other things, more plays would only wait for each other."""
        end = time.monotonic() + _WARM_S
        self.wait_until(lambda: self._lag_is_low() or time.monotonic() > end, "low lag")
        self.is_warm = True
        if not self._lag_is_low():
            return False
        self.plays.speed_up()
        return True

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

    def drain(self) -> int:
        """Ends the stage as a deployment would, after the batch under way. Returns its exit code."""
        self._stage.terminate()
        return self._stage.wait(_DRAIN_S)


@contextmanager
def demo_world(*, quiet: bool = False) -> Iterator[DemoWorld]:
    """Everything is started except the plays. Nothing of it is left after the block."""
    with ExitStack() as held:
        addresses = held.enter_context(temporary_stack(quiet=quiet))
        folder = Path(held.enter_context(tempfile.TemporaryDirectory(prefix="enrich-demo-")))
        environment = {
            **os.environ,
            "KAFKA_BOOTSTRAP_SERVERS": addresses.bootstrap_servers,
            "DEMO_DIR": str(folder),
        }
        if not EXAMPLE.is_dir():
            raise ConfigError(
                "the demo's configuration is missing", where=str(EXAMPLE), next_step="run it in a checkout of enrich"
            )
        pipeline = load(EXAMPLE / "pipeline.yaml", environment)
        connection = librdkafka_settings(pipeline.kafka)
        topics = Topics(new_admin_client(connection))
        keys = _fill(pipeline, connection, topics)
        stage = pipeline.stages[STAGE]
        watch = Watch(connection, topics, stage.sink.topic, str(stage.dlq))
        held.callback(watch.stop)
        plays = Plays(connection, stage.source.topic, keys["users"], keys["devices"])
        log = folder / "stage.log"
        # The stage's workers start the agent; it ends with the demo even if the stage fails.
        held.callback(_end_agent, pipeline)
        process = held.enter_context(_running_stage(environment, folder, log))
        held.callback(lambda: _quietly(plays.stop))
        watch.start()
        yield DemoWorld(pipeline, connection, topics, plays, watch, addresses, process, log)


def _fill(pipeline: Pipeline, connection: Connection, topics: Topics) -> dict[str, list[str]]:
    """Creates all topics and writes the rows of the tables. Returns the keys of each table."""
    stage = pipeline.stages[STAGE]
    for topic in (stage.source.topic, stage.sink.topic, str(stage.dlq)):
        topics.create(topic, partitions=_PARTITIONS)
    keys: dict[str, list[str]] = {}
    with DeliveringProducer(connection) as producer:
        for name, table in pipeline.tables.items():
            topics.create(str(table.topic), partitions=_PARTITIONS, config=COMPACTED)
            keys[name] = []
            for line in (EXAMPLE / f"{name}.jsonl").read_text(encoding="utf-8").splitlines():
                row = json.loads(line)
                keys[name].append(row.pop("key"))
                producer.produce(str(table.topic), keys[name][-1].encode(), json.dumps(row).encode())
    return keys


@contextmanager
def _running_stage(environment: dict[str, str], folder: Path, log: Path) -> "Iterator[subprocess.Popen[bytes]]":
    command = [sys.executable, "-m", "enrich", "--log-level", "info", "run", STAGE]
    with log.open("wb") as file:
        process = subprocess.Popen(
            [*command, "-c", str(EXAMPLE / "pipeline.yaml"), "--master", "local[2]"],
            env=environment,
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=file,
            # Ctrl-C must reach only the demo, which ends the stage itself.
            start_new_session=True,
        )
    try:
        yield process
    finally:
        if process.poll() is None:
            process.terminate()
            try:
                process.wait(_DRAIN_S)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()


def _end_agent(pipeline: Pipeline) -> None:
    header = living_agent(paths_of(pipeline))
    if header is not None:
        stop_agent(paths_of(pipeline), header, deadline_s=30)


def _quietly(end: Callable[[], object]) -> None:
    with suppress(Unreachable, Fatal):
        end()
