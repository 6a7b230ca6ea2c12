"""Brokers, a topic that says when each record was written, and the program of ingest before it."""

import json
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from enrich.dev import Stack
from enrich.dev.servers.ports import choose
from tests.chaos.edge.ingest.senders import Senders
from tests.support.ingesting import Ingest, started, write_config
from tests.support.processes import kill
from tests.support.topics import Cluster

DEADLINE_S = 1.0
LATE_S = DEADLINE_S + 1.0
"""So long after its request began a record of a 503 may still be written."""


@dataclass(frozen=True)
class World:
    stack: Stack
    cluster: Cluster
    topic: str
    config: Path
    port: int

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

    def written(self) -> dict[int, float]:
        """The ids in the topic, and when they were written. Fails if one is there twice."""
        found: Counter[int] = Counter()
        when: dict[int, float] = {}
        for message in self.cluster.messages(self.topic):
            one = json.loads(message.value() or b"")["id"]
            found[one] += 1
            when[one] = message.timestamp()[1] / 1000
        assert max(found.values()) == 1, "an event is there twice"
        return when


def world_of(stack: Stack, folder: Path, *, brokers: int = 1, **settings: str) -> World:
    """With a new topic."""
    addresses = stack.up(brokers=brokers)
    topic = f"plays.{time.time_ns()}"
    cluster = Cluster({"bootstrap.servers": addresses.bootstrap_servers})
    config = {"message.timestamp.type": "LogAppendTime"} | {k.replace("_", "."): v for k, v in settings.items()}
    cluster.topics.create(topic, partitions=6, config=config)
    (port,) = choose(1, ())
    entry = f"listen: '127.0.0.1:{port}', path: /v1/plays, topic: {topic}, format: json, key: id"
    sections = f"ingest:\n  plays: {{{entry}, deadline: {DEADLINE_S:g}s}}\n"
    path = write_config(folder / "pipeline.yaml", addresses.bootstrap_servers, sections)
    return World(stack, cluster, topic, path, port)


def check(world: World, senders: Senders, thaws: Sequence[float] = ()) -> None:
    """What holds whatever was killed.

    `thaws`: when a broker that was frozen went on. It then writes what it had received before: nobody takes that back.
    """
    written = world.written()
    assert senders.acknowledged - set(written) == set(), "acknowledged, and not in the topic"
    assert set(written) - set(senders.began) == set(), "in the topic, and never sent"
    late = {
        one: written[one] - began
        for one, began in senders.refused.items()
        if one in written
        and written[one] > began + LATE_S
        and not any(began < thaw and written[one] < thaw + LATE_S for thaw in thaws)
    }
    assert late == {}, f"refused, and written so many seconds after the request began: {late}"
