"""Set-up of the whole run: the seed, hypothesis, and the real servers that tests share."""

import hypothesis
import pytest
from hypothesis import HealthCheck, settings

from tests.support.seed import SEED, SOAK, rounds

settings.register_profile(
    "run",
    max_examples=rounds(100, 2_000),
    deadline=None,  # a noisy machine is no bug; timings live in bench/
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
    print_blob=True,
)
settings.load_profile("run")


def pytest_report_header() -> str:
    return f"seed: {SEED} (again with ENRICH_TEST_SEED={SEED}); {'soak' if SOAK else 'quick'} rounds"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    # Hypothesis takes its randomness from the seed of the run, so that one number repeats everything.
    for item in items:
        function = getattr(item, "function", None)
        if function is not None and hasattr(function, "hypothesis"):
            hypothesis.seed(SEED)(function)
