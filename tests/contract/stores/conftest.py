from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from stores.protocol import TableSpec
from tests.contract.stores.engines import ENGINES, OpenEngine
from tests.contract.stores.store_under_test import StoreUnderTest
from tests.support.clock import ManualClock


@pytest.fixture(params=list(ENGINES.values()), ids=list(ENGINES))
def open_engine(request: pytest.FixtureRequest) -> OpenEngine:
    engine: OpenEngine = request.param
    return engine


@pytest.fixture
def open_store(open_engine: OpenEngine) -> Iterator[Callable[..., StoreUnderTest]]:
    """Opens a store of the engine under test; tables are given by name."""
    with ExitStack() as stack:

        def open_one(**tables: TableSpec) -> StoreUnderTest:
            clock = ManualClock()
            return StoreUnderTest(stack.enter_context(open_engine(tables, clock)), clock)

        yield open_one
