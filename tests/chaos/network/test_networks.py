"""Networks that swallow: what falls silent is found, what comes back is used again, and nothing is lost."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.two_hosts import inside, why_not

_INSIDE = Path(__file__).with_name("inside")


def test_a_network_that_swallows_is_found_and_survived() -> None:
    """The tests proper, in `inside`, run in namespaces of their own."""
    refused = why_not()
    if refused is not None:
        pytest.skip(f"no network namespaces here: {refused}")
    command = [sys.executable, "-m", "pytest", "-n", "0", "-p", "no:cacheprovider", "-q", str(_INSIDE)]
    done = subprocess.run(
        inside(command),
        env={**os.environ, "ENRICH_TEST_INSIDE": "1"},
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert " passed" in done.stdout
