from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.chaos.edge.expel.instances import PARTITIONS, Arrivals, Instances
from tests.support.edge.expel import ExpelWorld
from tests.support.edge.sinks import RunningSink, running_sink
from tests.support.kafka.topics import Cluster


@pytest.fixture
def sink(tmp_path: Path) -> Iterator[RunningSink]:
    with running_sink("--out", tmp_path / "came.jsonl") as sink:
        yield sink


@pytest.fixture
def arrivals(sink: RunningSink, tmp_path: Path) -> Arrivals:
    return Arrivals(sink, tmp_path / "came.jsonl")


@pytest.fixture
def world(cluster: Cluster, sink: RunningSink) -> ExpelWorld:
    made = ExpelWorld(cluster, pauses=("1s", "2s", "5s", "1m"), partitions=PARTITIONS, url=f"{sink.url}/acme")
    made.section = {"batch": {"events": 20}, "parallel": 4}
    made.make()
    return made


@pytest.fixture
def instances(world: ExpelWorld, tmp_path: Path) -> Iterator[Instances]:
    with ExitStack() as held:
        yield Instances(tmp_path, world, held)
