from collections.abc import Iterator

import pytest

from enrich.dev import Addresses
from tests.contract.external.places import KINDS, Place, new_place


@pytest.fixture(params=KINDS)
def place(request: pytest.FixtureRequest, servers: Addresses) -> Iterator[Place]:
    with new_place(request.param, servers) as made:
        yield made
