"""Starts a stack on a small disk that runs full meanwhile. A program of its own, run inside a mount namespace:

    unshare -rm python -m tests.chaos.dev.disk_full DIRECTORY

Prints one JSON object with what the test asserts on.
"""

import json
import sys
import threading
from pathlib import Path

from tests.integration.dev.stacks import StackUnderTest
from tests.support.small_disk import fill, mount
from tests.support.waiting import wait_until


def main() -> None:
    disk = Path(sys.argv[1])
    mount(disk, "100m")
    stack = StackUnderTest(disk / "stack")

    def fill_once_servers_start() -> None:
        # Again and again: what a failing server deletes would make room for the others.
        wait_until(lambda: (stack.directory / "run").exists() or finished.is_set(), what="the start of a server")
        while not finished.wait(0.01):
            fill(disk / "ballast")

    finished = threading.Event()
    filler = threading.Thread(target=fill_once_servers_start)
    filler.start()
    full = stack.run("up")
    finished.set()
    filler.join()
    after_full = stack.processes()

    (disk / "ballast").unlink()
    again = stack.run("up", "--json")
    stack.down()
    sys.stdout.write(
        json.dumps(
            {
                "full": [full.returncode, full.stdout, full.stderr],
                "after_full": after_full,
                "again": [again.returncode, again.stdout, again.stderr],
                "after_down": stack.processes(),
            }
        )
    )


if __name__ == "__main__":
    main()
