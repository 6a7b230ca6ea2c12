"""What the benchmarks of stages share: a broker, tables, stages of a pipeline file, and passes over a topic of events
that are measured from outside."""

import json
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer

from bench.harness import family_cpu_seconds, say
from bench.kit.agents import remove_agent, start_agent
from bench.kit.metadata import COLUMNS, fill
from bench.stage.events import PARTITIONS, Events
from enrich.base.errors import EnrichError
from enrich.config import Pipeline, load
from enrich.config.groups import stage_group
from enrich.dev import Addresses, temporary_stack
from enrich.host.ipc.store_paths import paths_of
from enrich.host.reader.spawn import living_agent
from enrich.host.reader.stats import table_stats
from enrich.kafka import Topics, new_admin_client, new_assigned_consumer
from enrich.kafka.groups import committed

_LOOK_EVERY_S = 0.02
_DEADLINE_S = 300
_COUNTED_FROM = 0.05
"""A pass is measured from this share of its output on: starting up is no part of it, for no contender."""


@dataclass(frozen=True)
class Pass:
    """One contender over one topic of events."""

    events: float
    seconds: float
    cpu_seconds: float

    @property
    def per_second(self) -> float:
        return self.events / self.seconds

    @property
    def per_cpu_second(self) -> float:
        return self.events / self.cpu_seconds


def per_second(done: Pass) -> float:
    return done.per_second


def per_cpu_second(done: Pass) -> float:
    return done.per_cpu_second


def ratio_of(rounds: Sequence[Mapping[str, Pass]], name: str, other: str, rate: Callable[[Pass], float]) -> float:
    """The median of the rounds' own ratios: the two stand beside each other in each."""
    return statistics.median(rate(passes[name]) / rate(passes[other]) for passes in rounds)


@dataclass
class StageWorld:
    """Made by `stage_world`."""

    stack: Addresses
    folder: Path
    document: dict[str, Any]
    topics: Topics
    _asking: dict[str, Consumer] = field(default_factory=dict)
    """By group: who asks what it has committed."""

    @property
    def file(self) -> Path:
        return self.folder / "pipeline.yaml"

    @property
    def pipeline(self) -> Pipeline:
        return load(self.file)

    def table(self, name: str, rows: int, **section: Any) -> None:
        """A table of `bench.kit.metadata` with a topic of its own."""
        say(f"filling the table {name}: {rows:,} rows")
        fill(self.stack.bootstrap_servers, name, rows)
        self.document["tables"][name] = {"topic": name, "format": "json", "columns": COLUMNS, **section}

    def start_agent(self) -> None:
        """Returns once all tables are ready, and stand in segments."""
        self._write()
        say("loading the tables")
        start_agent(self.pipeline)
        self._wait_for(self._all_mapped, "segments of all tables")

    def agent_cpu_seconds(self) -> float:
        header = living_agent(paths_of(self.pipeline))
        return 0.0 if header is None else family_cpu_seconds(header.pid)

    def stage(
        self,
        events: Events,
        lookups: Sequence[str],
        profile: str,
        routes: Sequence[Mapping[str, str]] = (),
        **section: Any,
    ) -> str:
        """Adds a stage that never ran, over the tables of these names; returns its name. `routes`: without their
        topics, and none if there is one output for all."""
        name = f"pass{len(self.document['stages'])}"
        letters = self.dead_letters_of(name)
        outputs = [self.output_of(name, route["name"]) for route in routes] or [self.output_of(name)]
        for topic in (*outputs, letters):
            self.topics.create(topic, partitions=PARTITIONS)
            self.topics.end_offsets(topic)  # has patience with a broker that does not know it yet
        ways = [{**route, "topic": topic} for route, topic in zip(routes, outputs, strict=False)]
        self.document["stages"][name] = {
            "source": {"topic": events.topic, "format": "json", "schema": events.schema},
            "lookups": [
                {"table": table, "key": f"key_{index}", "as": as_}
                for index, (table, as_) in enumerate(zip(lookups, self.objects_of(lookups), strict=True))
            ],
            **({"routes": ways} if routes else {"sink": {"topic": outputs[0]}}),
            "dlq": letters,
            "profile": profile,
            "checkpoint": str(self.folder / "checkpoints" / name),
            **section,
        }
        self._write()
        return name

    @staticmethod
    def objects_of(lookups: Sequence[str]) -> list[str]:
        """The objects' names: one lookup is the peers' `user`, others are numbered."""
        return ["user"] if len(lookups) == 1 else [f"joined_{index}" for index in range(len(lookups))]

    @staticmethod
    def output_of(stage: str, route: str = "out") -> str:
        return f"{stage}.{route}"

    def outputs_of(self, stage: str) -> list[str]:
        """In the order of its routes."""
        section = self.document["stages"][stage]
        return [way["topic"] for way in section.get("routes") or [section["sink"]]]

    @staticmethod
    def dead_letters_of(stage: str) -> str:
        return f"{stage}.dlq"

    def forget(self, stage: str) -> None:
        """Its output is no longer needed."""
        for topic in (*self.outputs_of(stage), self.dead_letters_of(stage)):
            self.topics.delete(topic)

    def measured(
        self,
        stage: str,
        count: int,
        used: Callable[[], float],
        look: Callable[[], None] = lambda: None,
        records: int | None = None,
    ) -> Pass:
        """Waits until the outputs have the records of so many events, `records` if that is another number. Raises
        RuntimeError when it does not come to that."""
        wanted = count if records is None else records

        def there() -> int:
            return self.done(stage)

        first = self._reached(there, wanted * _COUNTED_FROM, look)
        began, used_before = time.perf_counter(), used()
        last = self._reached(there, wanted, look)
        result = Pass((last - first) * count / wanted, time.perf_counter() - began, used() - used_before)
        if last != wanted or self._records([self.dead_letters_of(stage)]):
            raise RuntimeError(f"{count} events made {last} records instead of {wanted}, and dead letters perhaps")
        return result

    def done(self, stage: str) -> int:
        """How many records are in its outputs."""
        # The ends of transactions take offsets, too; and what is committed of the source is in the outputs then.
        is_realtime = self.document["stages"][stage]["profile"] == "realtime"
        return self._processed(stage) if is_realtime else self._records(self.outputs_of(stage))

    def _processed(self, stage: str) -> int:
        """How many events of its source a stage has committed."""
        source, group = self.document["stages"][stage]["source"]["topic"], stage_group(self.document["name"], stage)
        if group not in self._asking:
            connection = {"bootstrap.servers": self.stack.bootstrap_servers}
            self._asking[group] = new_assigned_consumer(connection, group)
        found = committed(self._asking[group], group, source, range(PARTITIONS))
        return sum(each.offset for each in found)

    @staticmethod
    def _reached(count_now: Callable[[], int], count: float, look: Callable[[], None]) -> int:
        end = time.monotonic() + _DEADLINE_S
        while True:
            there = count_now()
            if there >= count:
                return there
            look()
            if time.monotonic() > end:
                raise RuntimeError(f"{there} of {count:g} after {_DEADLINE_S} s")
            time.sleep(_LOOK_EVERY_S)

    def _records(self, topics: Collection[str]) -> int:
        return sum(self.records_of(topics).values())

    def records_of(self, topics: Collection[str]) -> Mapping[str, int]:
        """How many records each topic has, asked for at once: looking takes time of the broker."""
        found = {}
        for topic, ends in self.topics.ends(topics).items():
            if isinstance(ends, EnrichError):
                raise ends
            found[topic] = sum(ends.offsets.values())
        return found

    def _all_mapped(self) -> bool:
        tables = table_stats(self.pipeline, list(self.document["tables"]), os.getpid)
        return all(table.mapped is not None for table in tables)

    def _write(self) -> None:
        self.file.write_text(json.dumps(self.document), encoding="utf-8")

    @staticmethod
    def _wait_for(condition: Callable[[], bool], what: str) -> None:
        end = time.monotonic() + _DEADLINE_S
        while not condition():
            if time.monotonic() > end:
                raise RuntimeError(f"no {what} after {_DEADLINE_S} s")
            time.sleep(0.2)


@contextmanager
def stage_world(memory: str = "4GiB") -> Iterator[StageWorld]:
    """A stack and a folder of their own, gone after the block with the agent."""
    with temporary_stack(quiet=True) as stack, tempfile.TemporaryDirectory(prefix="enrich-bench-") as name:
        folder = Path(name)
        document: dict[str, Any] = {
            "name": "bench",
            "kafka": {"bootstrap_servers": stack.bootstrap_servers},
            "state_dir": str(folder / "state"),
            "memory": {"budget": memory},
            "tables": {},
            "stages": {},
        }
        topics = Topics(new_admin_client({"bootstrap.servers": stack.bootstrap_servers}))
        world = StageWorld(stack, folder, document, topics)
        try:
            yield world
        finally:
            for consumer in world._asking.values():
                consumer.close()
            if world.file.exists() and document["tables"]:
                remove_agent(world.pipeline)
