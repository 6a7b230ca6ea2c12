from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from enrich.dev import Addresses
from tests.support.sync.service import SyncWorld


@pytest.fixture
def world(servers: Addresses) -> Iterator[SyncWorld]:
    with ExitStack() as held:
        yield SyncWorld(servers, held)
