"""RocksDB's texts, as 0.3.29 of rocksdict raised them, and what the caller should do."""

import errno
from pathlib import Path

import pytest

from stores.errors import CorruptState, Fatal, Fenced, Retryable
from stores.rocks.errors import translated

PATH = Path("/state/db")


@pytest.mark.parametrize(
    ("raised", "kind"),
    [
        ("Corruption: block checksum mismatch: stored = 1, computed = 2", CorruptState),
        ("Corruption: truncated record at end of file", CorruptState),
        ("IO error: No such file or directory: While open a file for random read: /x/000012.sst", CorruptState),
        ("Invalid argument: /x/CURRENT: does not exist (create_if_missing is false)", CorruptState),
        ("IO error: No space left on device: While appending to file: /x/000009.sst", Retryable),
        ("IO error: Disk quota exceeded: While appending to file: /x/000009.sst", Retryable),
        ("Operation failed. Try again.: The primary may have switched to a new MANIFEST", Retryable),
        ("Resource busy: ", Retryable),
        ("IO error: lock hold by current process, acquire time 1: /x/LOCK: No locks available", Fenced),
        ("IO error: While lock file: /x/LOCK: Resource temporarily unavailable", Fenced),
        ("IO error: Permission denied: While opendir: /x", Fatal),
        ("IO error: Too many open files: While open a file for random read: /x/1.sst", Retryable),
        ("IO error: Cannot allocate memory: While mmap file: /x/1.sst", Retryable),
        ("No such file or directory (os error 2)", CorruptState),
        ("File exists (os error 17)", CorruptState),
        (
            'Failed to create RocksDB directory: `Os { code: 17, kind: AlreadyExists, message: "File exists" }`.',
            CorruptState,
        ),
        (FileNotFoundError("No such file or directory (os error 2)"), CorruptState),
        (OSError(errno.ENOSPC, "No space left on device"), Retryable),
        (PermissionError(errno.EACCES, "Permission denied"), Fatal),
        ("something never seen", Fatal),
    ],
)
def test_every_error_tells_what_to_do_and_where(raised, kind):
    error = translated(raised if isinstance(raised, Exception) else Exception(raised), PATH)
    assert type(error) is kind
    assert error is not None
    assert error.where == str(PATH)


def test_what_is_not_the_drivers_is_left_alone():
    assert translated(ValueError("Corruption: of ours"), PATH) is None
