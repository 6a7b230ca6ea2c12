"""Stages under test: topics, a configuration and a real agent that belong to one test, and the program itself."""

import itertools
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

import psutil
from confluent_kafka import Message

from enrich.base.errors import Retryable
from enrich.config import Pipeline, load_text
from enrich.host.ipc.store_paths import paths_of
from enrich.host.reader.spawn import living_agent
from enrich.stage.progress.group import StageProgress
from tests.support.host.ending import stop_agent_of
from tests.support.kafka.topics import Cluster
from tests.support.spark.quick_jvm import quick_jvm
from tests.support.waiting import GUARD_S, wait_until, when_reachable

_NUMBERS = itertools.count()

USERS: dict[str, dict[str, Any] | None] = {
    "ann": {"plan": "free", "region": "eu"},
    "bob": {"plan": "pro", "region": None},
    "gone": None,
}
"""Rows of the table `users`; None is a tombstone."""

PINNABLE: dict[str, Any] = {"history": "1h", "config": {"min_compaction_lag_ms": "86400000"}}
"""What a table needs for `replay: deterministic`."""

SLOW_POLLING = {"spark.sql.streaming.pollingDelay": "50ms"}
"""How long a stage without new events waits before it asks the brokers again. With the default of 10 ms, JVM and
brokers are busy with that while a test waits for something else."""


class StageWorld:
    """A pipeline with topics of its own. Its stages are added by `stage`; topics that they name are made."""

    def __init__(self, cluster: Cluster, folder: Path, *, partitions: int = 2) -> None:
        self.cluster = cluster
        self.folder = folder
        self._prefix = f"w{os.getpid()}-{next(_NUMBERS)}"
        self._partitions = partitions
        self._made: set[str] = set()
        self._seen: dict[str, tuple[Counter[int], dict[int, int]]] = {}
        self.document: dict[str, Any] = {
            "name": self._prefix,
            "kafka": {"bootstrap_servers": cluster.connection["bootstrap.servers"]},
            "state_dir": str(folder / "state"),
            "tables": {},
            "stages": {},
        }

    def topic(self, name: str, **config: str) -> str:
        """A topic of this world, made when it is not there."""
        full = f"{self._prefix}.{name}"
        if full in self._made:
            return full
        self._made.add(full)
        if not self.cluster.topics.exists(full):
            settings = {key.replace("_", "."): value for key, value in config.items()}
            self.cluster.topics.create(full, partitions=self._partitions, config=settings)
            wait_until(lambda: self._has_leaders(full), what="leaders of the topic's partitions")
        return full

    def _has_leaders(self, topic: str) -> bool:
        with suppress(Retryable):
            return bool(self.cluster.topics.end_offsets(topic))
        return False

    def table(
        self,
        name: str,
        columns: str,
        rows: Mapping[str, Any],
        *,
        config: Mapping[str, str] | None = None,
        **section: Any,
    ) -> None:
        """A JSON table with these rows; None is a tombstone. `config`: of its topic."""
        topic = self.topic(f"table.{name}", cleanup_policy="compact", **(config or {}))
        self.document["tables"][name] = {"topic": topic, "format": "json", "columns": columns, **section}
        self.put(name, rows)

    def users(self, **section: Any) -> None:
        self.table("users", "plan string, region string", USERS, **section)

    def put(self, table: str, rows: Mapping[str, Any]) -> None:
        values = [(key.encode(), None if row is None else json.dumps(row).encode()) for key, row in rows.items()]
        self.cluster.produce(self.topic(f"table.{table}"), values)

    def stage(
        self,
        name: str,
        lookups: Sequence[Mapping[str, Any]],
        *,
        topics: str | None = None,
        dlq: bool = True,
        **section: Any,
    ) -> str:
        """Adds a stage over JSON events; returns its name. Its topics are named after it, unless `topics` is given."""
        topics = topics or name
        source = {
            "topic": self.topic(f"{topics}.in"),
            "format": "json",
            "schema": "user_id string, ip string, ts timestamp",
        }
        self.document["stages"][name] = {
            "source": source,
            "lookups": list(lookups),
            "sink": {"topic": self.topic(f"{topics}.out")},
            **({"dlq": self.topic(f"{topics}.dlq")} if dlq else {}),
            "checkpoint": str(self.folder / "checkpoints" / name),
            **section,
        }
        return name

    @property
    def pipeline(self) -> Pipeline:
        return load_text(json.dumps(self.document))

    @property
    def file(self) -> Path:
        path = self.folder / "pipeline.yaml"
        path.write_text(json.dumps(self.document))
        return path

    def send(self, stage: str, events: Sequence[Any]) -> None:
        """Events as objects, or as bytes; each with its number as key."""
        values = [each if isinstance(each, bytes) or each is None else json.dumps(each).encode() for each in events]
        topic = self.topic(f"{stage}.in")
        self.cluster.produce(topic, [(str(number).encode(), value) for number, value in enumerate(values)])

    def output(self, stage: str) -> list[dict[str, Any]]:
        return [json.loads(message.value() or b"") for message in self.cluster.messages(self.topic(f"{stage}.out"))]

    def ids(self, stage: str) -> Counter[int]:
        """How often each event's `id` stands in the output."""
        return Counter(event["id"] for event in self.output(stage))

    def seen(self, stage: str) -> Counter[int]:
        """The same, for whoever waits: what an earlier call has read is not read again."""
        topic = self.topic(f"{stage}.out")
        seen, following = self._seen.setdefault(topic, (Counter(), {}))
        for message in self.cluster.messages(topic, {**self.cluster.topics.start_offsets(topic), **following}):
            seen[json.loads(message.value() or b"")["id"]] += 1
            following[message.partition() or 0] = (message.offset() or 0) + 1
        return seen

    def copies(self, stage: str) -> dict[int, Counter[bytes]]:
        """How often each of its records stands in the output, by the event's `id`."""
        copies: dict[int, Counter[bytes]] = defaultdict(Counter)
        for message in self.cluster.messages(self.topic(f"{stage}.out")):
            value = message.value() or b""
            copies[json.loads(value)["id"]][value] += 1
        return copies

    def dead_letters(self, stage: str) -> list[Message]:
        return self.cluster.messages(self.topic(f"{stage}.dlq"))

    def until(self, stage: str, records: int, *, deadline_s: float = GUARD_S) -> list[dict[str, Any]]:
        """The output, once the stage made so many records of its events, dead letters included."""

        def all_there() -> list[dict[str, Any]] | None:
            output = self.output(stage)
            dead = self.dead_letters(stage) if "dlq" in self.document["stages"][stage] else []
            return output if len(output) + len(dead) >= records else None

        wait_until(lambda: self.records(stage) >= records, deadline_s=deadline_s, what=f"{records} records of {stage}")
        found = wait_until(all_there, deadline_s=deadline_s, what=f"{records} records of stage {stage}")
        assert found is not None
        return found

    def records(self, stage: str) -> int:
        """How many there are: cheaper than reading them."""
        section = self.document["stages"][stage]
        topics = [section["sink"]["topic"], *([section["dlq"]] if "dlq" in section else [])]
        return sum(sum(when_reachable(lambda: self.cluster.topics.end_offsets(topic)).values()) for topic in topics)  # noqa: B023 - called at once

    def progress(self, stage: str) -> StageProgress:
        """As another driver of the stage has it."""
        return StageProgress(self.cluster.connection, self._prefix, stage)

    def committed(self, stage: str) -> dict[int, int]:
        """What the stage's group has of its source."""
        topic = self.document["stages"][stage]["source"]["topic"]
        with closing(self.progress(stage)) as progress:
            return progress.committed(topic, self.cluster.topics.partitions(topic))

    def lose_checkpoint(self, stage: str) -> None:
        """Somebody deletes it."""
        shutil.rmtree(self.document["stages"][stage]["checkpoint"])

    def lose_checkpoints(self) -> None:
        """With all that stands beside them."""
        shutil.rmtree(self.folder / "checkpoints")

    def wipe_store(self) -> None:
        """The agent ends, and everything that it had is gone."""
        self.close()
        shutil.rmtree(self.folder / "state", ignore_errors=True)

    def agent_pid(self) -> int | None:
        header = living_agent(paths_of(self.pipeline))
        return None if header is None else header.pid

    def close(self) -> None:
        stop_agent_of(self.pipeline)


class Load:
    """Events with rising ids, some thousands a second, produced inside the block, never far ahead of the stage."""

    largest_backlog = 5_000

    def __init__(self, world: StageWorld, stage: str, user: Callable[[int], str] = lambda _: "ann") -> None:
        """`user`: of each id."""
        self._world, self._stage, self._user = world, stage, user
        self._stop = threading.Event()
        self.sent = 0
        self._thread = threading.Thread(target=self._send)

    def __enter__(self) -> "Load":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        self._stop.set()
        self._thread.join()

    def send_last(self) -> None:
        """One event more, after the block."""
        self._produce([{"id": self.sent, "user_id": self._user(self.sent)}])
        self.sent += 1

    def _send(self) -> None:
        while not self._stop.wait(0.05):
            # While the broker is away: the same ids again, which may then be there twice.
            with suppress(Retryable):
                if self.sent - self._world.records(self._stage) < self.largest_backlog - 200:
                    ids = range(self.sent, self.sent + 200)
                    self._produce([{"id": number, "user_id": self._user(number)} for number in ids])
                    self.sent += 200

    def _produce(self, events: Sequence[Mapping[str, Any]]) -> None:
        self._world.send(self._stage, events)


class RunningStage:
    """The program `enrich run`."""

    def __init__(
        self,
        world: StageWorld,
        stage: str,
        *words: str,
        log_format: str = "text",
        master: str = "local[2,4]",
        environment: Mapping[str, str] | None = None,
        within: Sequence[str] = (),
    ) -> None:
        """`within`: a command that runs the program, such as `nsenter`."""
        self.log = world.folder / f"{stage}.log"
        logs = ["--log-level", "info", "--log-format", log_format]
        command = [sys.executable, "-m", "enrich", *logs, "run", stage, "-c", str(world.file)]
        quick = ["--conf", f"spark.driver.extraJavaOptions={quick_jvm()}"]
        for name, value in SLOW_POLLING.items():
            quick += ["--conf", f"{name}={value}"]
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [*within, *command, "--master", master, *quick, *words],
                env={**(os.environ if environment is None else environment), "PYTHONFAULTHANDLER": "1"},
                stdout=log,
                stderr=log,
                cwd=world.folder,
                start_new_session=True,
            )

    @property
    def pid(self) -> int:
        return self.process.pid

    def has_ended(self) -> bool:
        return self.process.poll() is not None

    def told(self) -> str:
        return self.log.read_text(encoding="utf-8")

    def tell(self, number: signal.Signals = signal.SIGTERM) -> None:
        """To all of its processes, as `timeout`, systemd and a terminal send it."""
        os.killpg(self.process.pid, number)

    def end(self, deadline_s: float = GUARD_S) -> int:
        """Its exit code."""
        try:
            return self.process.wait(timeout=deadline_s)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"it has not ended within {deadline_s:g} s; it says:\n{self.last_words()}") from None

    def wait_until(self, condition: Callable[[], bool], *, what: str, deadline_s: float = GUARD_S) -> None:
        """Something of this stage, which may not end meanwhile."""

        def has_come() -> bool:
            assert not self.has_ended(), self.told()
            return condition()

        try:
            wait_until(has_come, deadline_s=deadline_s, what=what)
        except AssertionError as error:
            if self.has_ended():
                raise
            raise AssertionError(f"{error}; the stage says:\n{self.last_words()}") from error

    def last_words(self) -> str:
        """Ends it. What it said of late, and where the threads of all its processes stood."""
        before = len(self.told())
        members = [psutil.Process(self.pid), *psutil.Process(self.pid).children(recursive=True)]
        for member in members:
            with suppress(psutil.Error):
                if member.name() == "java":
                    member.send_signal(signal.SIGQUIT)
        with suppress(AssertionError):
            wait_until(lambda: "JNI global refs" in self.told()[before:], what="the JVM's threads")
        for member in reversed(members):
            with suppress(psutil.Error):
                if member.name() != "java":
                    member.send_signal(signal.SIGABRT)
        psutil.wait_procs(members[:1], timeout=60)
        told = self.told()
        return told[max(0, before - 8_000) :]

    def kill(self) -> None:
        if not self.has_ended():
            self.process.kill()
        self.process.wait()


@contextmanager
def running_stage(world: StageWorld, stage: str, *words: str, **options: Any) -> Iterator[RunningStage]:
    """Runs inside the block; what is still there at its end is killed. `options`: those of RunningStage."""
    running = RunningStage(world, stage, *words, **options)
    try:
        yield running
    finally:
        running.kill()


def run_to_the_end(world: StageWorld, stage: str, load: Load, **options: Any) -> None:
    """One run more, for what was not done when the last one was killed."""
    load.send_last()  # if nothing was left, the run would be told to stop while its interpreter starts
    with running_stage(world, stage, **options) as running:
        running.wait_until(lambda: len(world.seen(stage)) >= load.sent, what="all events")
        running.tell()
        assert running.end() == 0, running.told()
