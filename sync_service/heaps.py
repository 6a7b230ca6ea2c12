"""Makes the C library return freed memory to the system."""

import ctypes
from contextlib import suppress

# From malloc.h.
_M_ARENA_MAX = -8
_M_MMAP_THRESHOLD = -3


def keep_small() -> None:
    """Limits malloc to two arenas: by default some forty threads, most of them the Kafka clients', get one each. Also
    fixes the mmap threshold: freeing a large array raises it, and the next arrays then lie in these arenas, where small
    objects keep them from shrinking."""
    with suppress(OSError, AttributeError):  # another C library
        library = ctypes.CDLL("libc.so.6")
        library.mallopt(_M_ARENA_MAX, 2)
        library.mallopt(_M_MMAP_THRESHOLD, 1 << 20)


def give_back() -> None:
    """To be called after many small objects were freed, such as the records of a whole topic."""
    with suppress(OSError, AttributeError):
        ctypes.CDLL("libc.so.6").malloc_trim(0)
