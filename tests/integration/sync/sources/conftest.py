from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from enrich.dev import Addresses
from tests.support.sync.sources import SourceWorld


@pytest.fixture
def source(servers: Addresses, tmp_path: Path) -> Iterator[SourceWorld]:
    with ExitStack() as held:
        yield SourceWorld(servers, tmp_path, held)
