"""A world a test, on the broker that all share."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from enrich.dev.stack import Addresses
from tests.support.observe.observing import World

_NUMBERS = iter(range(10**6))


@pytest.fixture
def new_world(stack: Addresses, tmp_path: Path) -> Callable[..., World]:
    def make(**observe: Any) -> World:
        assert stack.bootstrap_servers is not None
        return World(tmp_path, stack.bootstrap_servers, f"observed-{next(_NUMBERS)}", **observe)

    return make
