from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from enrich.dev import Stack
from tests.support.servers.restarted import Servers
from tests.support.sync.service import SHORT_SESSIONS, Program, SyncWorld


@pytest.fixture(scope="session")
def chaos(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Servers]:
    """Servers that may be killed."""
    stack = Stack(tmp_path_factory.mktemp("stack"))
    try:
        yield Servers(stack, stack.up(["postgres"]))
    finally:
        stack.reset(yes=True)


@pytest.fixture
def world(chaos: Servers) -> Iterator[SyncWorld]:
    with ExitStack() as held:
        world = SyncWorld(chaos.addresses, held)
        world.make_topic(partitions=4)
        world.make_table()
        yield world


@pytest.fixture
def start(world: SyncWorld, tmp_path: Path) -> Iterator[Callable[[], Program]]:
    """Starts another instance of the service, with a route to each store."""
    with ExitStack() as held:
        count = 0

        def start_one() -> Program:
            nonlocal count
            count += 1
            data = world.data_to_both()
            data["kafka"]["client"] = SHORT_SESSIONS
            program = Program(tmp_path / str(count), data)
            held.callback(program.close)
            return program

        yield start_one
