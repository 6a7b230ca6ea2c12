"""There and back: a table of PostgreSQL becomes a topic, and the topic rows of Redis and of another table.

After any life of the table, restarts of the service included, all three have the same rows with the same values.
"""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from enrich.dev import Addresses
from tests.support.seed import random_source, rounds
from tests.support.sync.round_trip import FORMATS, RoundTrip
from tests.support.sync.service import SyncWorld, running
from tests.support.sync.sources import SourceWorld, repeats

_ROUNDS = 4


@pytest.fixture
def source(servers: Addresses, tmp_path: Path) -> Iterator[SourceWorld]:
    with ExitStack() as held:
        yield SourceWorld(servers, tmp_path, held)


@pytest.mark.parametrize("number", range(rounds(1, 15)))
@pytest.mark.parametrize("encoding", FORMATS)
def test_what_comes_back_is_row_by_row_what_went_out(
    source: SourceWorld, world: SyncWorld, encoding: str, number: int
) -> None:
    random = random_source(f"round trip/{encoding}/{number}")
    # Half of the rows may go in one change of such a small table.
    source.settings |= {"delete_guard": 1}
    trip = RoundTrip(source, world, FORMATS[encoding])
    source.insert(1, 60)
    for _ in range(_ROUNDS):
        with running(trip.pipeline()):
            trip.change(random)
            trip.wait_equal()
            trip.change(random)  # which the service may or may not see before it is stopped
    with running(trip.pipeline()):
        trip.wait_equal()
    assert len(trip.right()) > 10
    assert repeats(source.versions()) == []
