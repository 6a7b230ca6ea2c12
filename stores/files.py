"""Maps errors of the file system to errors of our own tree."""

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from stores.errors import EnrichError, Fatal, Retryable


@contextmanager
def mapped_files(path: Path) -> Iterator[None]:
    """Turns OSErrors inside the block into errors of our tree that name the path, except FileNotFoundError."""
    try:
        yield
    except FileNotFoundError:
        raise
    except NotADirectoryError as error:
        raise FileNotFoundError(error.errno, error.strerror, error.filename) from error
    except OSError as error:
        raise refusal(error, path) from error


def make_private(directory: Path) -> None:
    """Creates a directory, and those above it, that only its user can read: its files contain values of tables. Makes
    one that an earlier release created private too. Raises OSError."""
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    found = directory.stat()
    if found.st_uid == os.geteuid() and stat.S_IMODE(found.st_mode) & 0o077:
        directory.chmod(0o700)


def refusal(error: OSError, path: Path) -> EnrichError:
    """The error of our tree that says what the caller should do."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return Retryable("the disk is full", where=str(path), next_step="free space there; the store then recovers")
    if error.errno in (errno.EMFILE, errno.ENFILE, errno.ENOMEM):
        return Retryable(
            f"this host has no room for another open or mapped file: {error.strerror}",
            where=str(path),
            next_step="raise the limit of open files (ulimit -n) or of mappings (vm.max_map_count)",
        )
    return Fatal(f"a file cannot be used: {error}", where=str(path), next_step="check the directory")
