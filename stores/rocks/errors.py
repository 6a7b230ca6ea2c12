"""Maps RocksDB's errors, which reach Python as bare `Exception`s with a text, to our tree. This is the only place.

Operations on the driver's own files beside the database fail with an `OSError`, or with the text of one.
"""

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rocksdict import DbClosedError

from stores import files
from stores.errors import CorruptState, EnrichError, Fatal, Fenced, Retryable

_DISK_FULL = ("no space left on device", "disk quota exceeded", "space limit")
_LOCKED = ("lock hold by current process", "while lock file")
_HOST = ("permission denied", "read-only file system")
_NO_ROOM = {"too many open files": errno.EMFILE, "cannot allocate memory": errno.ENOMEM}
_DAMAGE = ("corruption", "invalid argument", "not found", "io error", "not implemented", "not supported")
# The driver itself, not RocksDB, creates and lists the directory. These are its errors if it is deleted meanwhile.
_DELETED = ("os error 2)", "os error 17)", "code: 2,", "code: 17,")
_PASSING = (
    "resource busy",
    "operation timed out",
    "operation aborted",
    "operation failed. try again",
    "result incomplete",
)


@contextmanager
def mapped(path: Path) -> Iterator[None]:
    """Turns RocksDB's errors inside the block into errors of our tree that name the path."""
    try:
        yield
    except Exception as error:  # nothing more exact is raised; see `translated`
        translation = translated(error, path)
        if translation is None:
            raise
        raise translation from error


def translated(error: Exception, path: Path) -> EnrichError | None:
    """The error of our tree for an error of the driver; None if the error is not the driver's."""
    if isinstance(error, DbClosedError):
        return Fatal("the store was used after it was closed", where=str(path))
    text = str(error)
    if isinstance(error, FileNotFoundError):
        return _damaged(text, path)
    if isinstance(error, OSError):
        return files.refusal(error, path)
    if type(error) is not Exception:
        return None
    low = text.lower()
    where = str(path)
    if any(sign in low for sign in _DISK_FULL):
        return Retryable(
            f"the disk is full: {text}", where=where, next_step="free space there; the store then recovers"
        )
    for sign, number in _NO_ROOM.items():
        if sign in low:
            return files.refusal(OSError(number, text), path)
    if any(sign in low for sign in _LOCKED):
        return Fenced("another writer holds the store", where=where, next_step="stop; only one agent may write")
    if any(sign in low for sign in _HOST):
        return Fatal(f"this host refuses the store's files: {text}", where=where, next_step="check rights and mounts")
    if low.startswith(_PASSING):
        return Retryable(f"RocksDB is busy: {text}", where=where)
    if low.startswith(_DAMAGE) or any(sign in low for sign in _DELETED):
        return _damaged(text, path)
    return Fatal(f"RocksDB failed: {text}", where=where, next_step="report this, with the store's log")


@contextmanager
def mapped_files(path: Path) -> Iterator[None]:
    """The same for files beside the database. A missing one is damage: part of the store was deleted, or all of it."""
    with files.mapped_files(path):
        try:
            yield
        # FileExistsError: a directory that is deleted while it is being created.
        except (FileNotFoundError, FileExistsError) as error:
            raise _damaged(str(error), path) from error


def _damaged(text: str, path: Path) -> CorruptState:
    return CorruptState(f"the store is damaged: {text}", where=str(path), next_step="rebuild it from its topics")
