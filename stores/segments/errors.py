"""What the file system refuses, as errors of our own tree; and what is said of a file that is not as it was written."""

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from stores.errors import CorruptState, Fatal, Retryable


@contextmanager
def mapped_files(path: Path) -> Iterator[None]:
    """Raises what the file system raises inside as an error that names the path; a missing file as it is."""
    try:
        yield
    except FileNotFoundError:
        raise
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise Retryable(
                "the disk is full", where=str(path), next_step="free space there; the store goes on by itself"
            ) from error
        raise Fatal(f"a file cannot be used: {error}", where=str(path), next_step="check the directory") from error


def damaged(path: Path, what: str) -> CorruptState:
    return CorruptState(
        f"a segment {what}", where=str(path), next_step="its agent builds the table anew; try again in a few seconds"
    )
