"""One seed for a whole run, printed at its start and accepted again, and the number of rounds a test makes."""

import os
import random
import time
from typing import Any

SEED = int(os.environ.get("ENRICH_TEST_SEED") or time.time_ns() % 1_000_000)
SOAK = os.environ.get("ENRICH_TEST_SOAK") == "1"


def rounds(quick: int, soak: int) -> int:
    """How often a randomised test repeats: `make test` is quick, `make soak` takes its time."""
    return soak if SOAK else quick


def variants(*some: Any, take: int = 1) -> list[Any]:
    """For `parametrize`: all of them in `make soak`; otherwise `take`, by the seed, so that each has its turn."""
    return [*some] if SOAK else random_source(str(some)).sample(some, take)


def random_source(salt: str) -> random.Random:
    """A source of its own for each use, so that the order of tests does not matter to it."""
    return random.Random(f"{SEED}/{salt}")
