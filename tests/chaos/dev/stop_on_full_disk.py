"""Stops and deletes stacks on a small disk that is full. A program of its own, run inside a mount namespace:

unshare -rm python -m tests.chaos.dev.stop_on_full_disk DIRECTORY
"""

import sys
from pathlib import Path

import pytest

from enrich.dev import Stack
from tests.integration.dev.stacks import StackUnderTest, with_redis_alone
from tests.support.small_disk import fill, mount


def main() -> None:
    disk = Path(sys.argv[1])
    mount(disk, "100m")
    stopped, deleted = (StackUnderTest(disk / name) for name in ("stopped", "deleted"))
    with pytest.MonkeyPatch.context() as patch:
        with_redis_alone(patch)
        for stack in (stopped, deleted):
            Stack(stack.directory).up()
    fill(disk / "ballast")

    done = stopped.run("down")
    assert (done.returncode, done.stdout) == (0, "stopped redis\n"), done.stderr
    assert "the disk is full" in done.stderr
    assert stopped.processes() == []
    done = deleted.run("reset", "--yes")
    assert done.returncode == 0, done.stderr
    assert deleted.processes() == []
    assert not deleted.directory.exists()
    sys.stdout.write("held")


if __name__ == "__main__":
    main()
