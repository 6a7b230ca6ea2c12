from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.support.edge.retries import RetrierProcess, RetryWorld, Start
from tests.support.kafka.topics import Cluster


@pytest.fixture
def world(cluster: Cluster) -> RetryWorld:
    made = RetryWorld(cluster, pauses=("1s", "2s"))
    made.make_topics(partitions=4)
    return made


@pytest.fixture
def start(world: RetryWorld, tmp_path: Path) -> Iterator[Start]:
    """Starts another instance."""
    with ExitStack() as held:
        count = 0

        def start_one() -> RetrierProcess:
            nonlocal count
            count += 1
            instance = RetrierProcess(tmp_path / str(count), world)
            held.callback(instance.close)
            return instance

        yield start_one
