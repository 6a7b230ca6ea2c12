"""Networks that swallow: what falls silent is found, what comes back is used again, and nothing is lost."""

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.support.links.two_hosts import inside, why_not

_INSIDE = Path(__file__).with_name("inside")


def test_a_network_that_swallows_is_found_and_survived() -> None:
    """The tests proper, in `inside`, run in namespaces of their own."""
    refused = why_not()
    if refused is not None:
        pytest.skip(f"no network namespaces here: {refused}")
    scenes = sorted(_INSIDE.glob("test_*.py"))
    assert scenes
    with ThreadPoolExecutor(len(scenes)) as all_at_once:  # they mostly wait
        for scene, done in zip(scenes, all_at_once.map(_played, scenes), strict=True):
            assert done.returncode == 0 and " passed" in done.stdout, f"{scene.name}\n{done.stdout}{done.stderr}"


def _played(scene: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pytest", "-n", "0", "-p", "no:cacheprovider", "-q", str(scene)]
    environment = {**os.environ, "ENRICH_TEST_INSIDE": "1"}
    return subprocess.run(inside(command), env=environment, capture_output=True, text=True, timeout=900, check=False)
