"""A disk that fills up under an agent, and has space again."""

import subprocess
import sys


def test_on_a_full_disk_the_table_stands_still_says_why_and_goes_on_when_space_returns(stack, new_topic, tmp_path):
    topic = new_topic(cleanup_policy="compact")
    program = [sys.executable, "-m", "tests.chaos.host.disk_full", str(tmp_path), stack.bootstrap_servers, topic]
    done = subprocess.run(["unshare", "-rm", *program], capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, done.stdout) == (0, "held"), done.stderr
