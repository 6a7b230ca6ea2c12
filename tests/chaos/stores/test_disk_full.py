"""A disk that fills up under a store, and has space again."""

import subprocess
import sys


def test_on_a_full_disk_nothing_is_acknowledged_and_the_store_goes_on_when_space_returns(tmp_path):
    program = [sys.executable, "-m", "tests.chaos.stores.disk_full", str(tmp_path)]
    done = subprocess.run(["unshare", "-rm", *program], capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, done.stdout) == (0, "held"), done.stderr
