"""Brokers, a topic that says when each record was written, and the program of ingest before it."""

import json
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from enrich.dev import Stack
from enrich.dev.servers.ports import choose
from tests.chaos.edge.ingest.judgement import late_ones, needless_copies
from tests.chaos.edge.ingest.senders import Senders
from tests.support.edge.ingesting import Ingest, started, write_config
from tests.support.kafka.topics import Cluster
from tests.support.processes import kill


@dataclass(frozen=True)
class World:
    stack: Stack
    cluster: Cluster
    topic: str
    config: Path
    port: int
    deadline_s: float

    def pid(self, server: str) -> int:
        (pid,) = [each.pid for each in self.stack.status() if each.server == server and each.pid is not None]
        return pid

    def kill(self, *servers: str) -> None:
        for pid in [self.pid(server) for server in servers]:
            kill(pid)

    @contextmanager
    def ingest(self) -> Iterator[Ingest]:
        """The program once it takes events; killed at the end."""
        with started(self.config) as ingest:
            ingest.until_ready()
            yield ingest

    def written(self) -> dict[int, list[float]]:
        """The ids in the topic, and when each was written: twice, if it is there twice."""
        at = {(each.partition(), each.offset()): each for each in self.cluster.messages(self.topic)}
        found: dict[int, list[float]] = {}
        for message in at.values():
            found.setdefault(json.loads(message.value() or b"")["id"], []).append(message.timestamp()[1] / 1000)
        return {one: sorted(times) for one, times in found.items()}


def world_of(stack: Stack, folder: Path, *, brokers: int = 1, deadline_s: float = 1.0, **settings: str) -> World:
    """With a new topic."""
    addresses = stack.up(brokers=brokers)
    topic = f"plays.{time.time_ns()}"
    cluster = Cluster({"bootstrap.servers": addresses.bootstrap_servers})
    config = {"message.timestamp.type": "LogAppendTime"} | {k.replace("_", "."): v for k, v in settings.items()}
    cluster.topics.create(topic, partitions=6, config=config)
    (port,) = choose(1, ())
    entry = f"listen: '127.0.0.1:{port}', path: /v1/plays, topic: {topic}, format: json, key: id"
    sections = f"ingest:\n  plays: {{{entry}, deadline: {deadline_s:g}s}}\n"
    path = write_config(folder / "pipeline.yaml", addresses.bootstrap_servers, sections)
    return World(stack, cluster, topic, path, port, deadline_s)


def check(world: World, senders: Senders, thaws: Sequence[float] = ()) -> None:
    """What holds whatever was killed.

    `thaws`: when a broker that was frozen went on. It then writes what it had received before: nobody takes that back.
    """
    written = world.written()
    assert senders.acknowledged - set(written) == set(), "acknowledged, and not in the topic"
    assert set(written) - set(senders.began) == set(), "in the topic, and never sent"
    judged = {one: times for one, times in written.items() if one in senders.refused or len(times) > 1}
    late = late_ones(judged, senders.began, world.deadline_s, thaws)
    assert late == {}, f"refused, or there again, and written so many seconds after the request began: {late}"
    twice = {
        one: f"{times}, answered {senders.ends.get(one)}"
        for one, times in needless_copies(written, senders.began, senders.refused, world.deadline_s).items()
    }
    assert twice == {}, f"in the topic more than once, and no record had timed out meanwhile: {twice}"
