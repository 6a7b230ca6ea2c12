"""Large temporary arrays in unnamed files, so that the kernel can write them out when memory is short."""

import os
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from stores.files import mapped_files

_IN_MEMORY = 1 << 20


def scratch_array(directory: Path, length: int, kind: npt.DTypeLike) -> npt.NDArray[Any]:
    """An array of zeros. Raises Retryable if the disk has no room for it."""
    size = length * np.dtype(kind).itemsize
    if size <= _IN_MEMORY:
        return np.zeros(length, kind)
    with mapped_files(directory), tempfile.TemporaryFile(dir=directory) as file:
        # Allocate all of it now: a page that finds no room on disk later kills the process.
        os.posix_fallocate(file.fileno(), 0, size)
        return np.asarray(np.memmap(file, kind, "r+", shape=(length,)))
