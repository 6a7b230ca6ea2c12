"""The files that this process has open, and a time in which it may open no more."""

import os
import resource
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path


def open_below(directory: Path) -> list[str]:
    """Not all open files: the servers and clients that all tests share open and close theirs when they like."""
    return sorted(name for name in _targets().values() if name.startswith(f"{directory}/"))


def watching(pid: int) -> list[str]:
    """The descriptors that watch that process."""
    found = []
    for number, name in _targets().items():
        with suppress(FileNotFoundError):
            if "[pidfd]" in name and f"\nPid:\t{pid}\n" in Path(f"/proc/self/fdinfo/{number}").read_text():
                found.append(number)
    return found


def _targets() -> dict[str, str]:
    targets = {}
    for path in Path("/proc/self/fd").iterdir():
        with suppress(FileNotFoundError):  # the listing's own, and what is closed meanwhile
            targets[path.name] = str(path.readlink())
    return targets


@contextmanager
def no_more_files() -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    taken = []
    highest = max(int(path.name) for path in Path("/proc/self/fd").iterdir())
    resource.setrlimit(resource.RLIMIT_NOFILE, (highest + 1, hard))
    try:
        with suppress(OSError):
            while True:
                taken.append(os.dup(0))
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        for descriptor in taken:
            os.close(descriptor)
