"""Directories for stores under test."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory


@contextmanager
def fast_directory() -> Iterator[Path]:
    """In memory where there is such a place: a test opens hundreds of stores, and each flush waits for its disk."""
    shared_memory = Path("/dev/shm")  # noqa: S108 - a directory of our own is made in it
    parent = shared_memory if shared_memory.is_dir() else None
    with TemporaryDirectory(prefix="enrich-test-", dir=parent) as directory:
        yield Path(directory)
