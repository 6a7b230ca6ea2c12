"""A disk that fills up under segments, and has space again."""

import subprocess
import sys


def test_on_a_full_disk_nothing_shows_and_the_writer_goes_on_when_space_returns(tmp_path):
    program = [sys.executable, "-m", "tests.chaos.segments.disk_full", str(tmp_path)]
    done = subprocess.run(["unshare", "-rm", *program], capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, done.stdout) == (0, "held"), done.stderr
