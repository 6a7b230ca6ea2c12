"""Maps files without keeping a descriptor: a worker maps several files per table, and its limit of open files is low.

Python's own `mmap` keeps a descriptor as long as the mapping lives, and numpy and Arrow use it.
"""

import ctypes
import mmap
import os
import weakref
from pathlib import Path

import numpy as np
import pyarrow as pa

from stores.files import mapped_files
from stores.segments.loops.compiled import Bytes

_C = ctypes.CDLL(None, use_errno=True)
_C.mmap.restype = ctypes.c_void_p
_C.mmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long)
_C.munmap.restype = ctypes.c_int
_C.munmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t)
_FAILED = ctypes.c_void_p(-1).value


class _Mapping:
    """Lives as long as any array over it."""

    def __init__(self, address: int, length: int) -> None:
        # Not at exit: threads may still read until the process has ended; then the kernel unmaps it.
        weakref.finalize(self, _C.munmap, address, length).atexit = False


def content_of(path: Path) -> Bytes:
    """A whole file, read-only. Raises FileNotFoundError, and Retryable if the host's limit of mappings is reached."""
    with mapped_files(path):
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            length = os.fstat(descriptor).st_size
            address = _C.mmap(None, length, mmap.PROT_READ, mmap.MAP_SHARED, descriptor, 0)
            if address == _FAILED:
                number = ctypes.get_errno()
                raise OSError(number, os.strerror(number), str(path))
        finally:
            os.close(descriptor)
    return np.frombuffer(pa.foreign_buffer(address, length, _Mapping(address, length)), np.uint8)
