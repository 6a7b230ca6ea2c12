"""One seed for a whole run, printed at its start and accepted again, and the number of rounds a test makes."""

import os
import random
import time
from collections import defaultdict
from collections.abc import Iterable
from typing import Any

import pytest

SEED = int(os.environ.get("ENRICH_TEST_SEED") or time.time_ns() % 1_000_000)
SOAK = os.environ.get("ENRICH_TEST_SOAK") == "1"


def rounds(quick: int, soak: int) -> int:
    """How often a randomised test repeats: `make test` is quick, `make soak` takes its time."""
    return soak if SOAK else quick


def variants(*some: Any, take: int = 1) -> list[Any]:
    """For `parametrize`: all of them in `make soak`; otherwise `take`, by the seed, so that each has its turn."""
    return [*some] if SOAK else random_source(str(some)).sample(some, take)


def in_turn(guarantee: str) -> pytest.MarkDecorator:
    """Marks long tests that show one guarantee in different places. With `--in-turn` a run takes one of them."""
    return pytest.mark.in_turn(guarantee)


def left_to_others(items: Iterable[pytest.Item]) -> list[pytest.Item]:
    """Those of these tests that are the turn of runs with other seeds."""
    of_guarantee: dict[str, list[pytest.Item]] = defaultdict(list)
    for item in items:
        if mark := item.get_closest_marker("in_turn"):
            of_guarantee[mark.args[0]].append(item)
    chosen = {random_source(guarantee).choice(some) for guarantee, some in of_guarantee.items()}
    return [item for some in of_guarantee.values() for item in some if item not in chosen]


def random_source(salt: str) -> random.Random:
    """A source of its own for each use, so that the order of tests does not matter to it."""
    return random.Random(f"{SEED}/{salt}")
