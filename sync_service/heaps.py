"""What the C library keeps of memory that was given back: as little as it can be told to."""

import ctypes
from contextlib import suppress

# Of malloc.h.
_M_ARENA_MAX = -8
_M_MMAP_THRESHOLD = -3


def keep_small() -> None:
    """The C library gives each of some forty threads, most of the Kafka clients, a heap of its own; and once a large
    array was given back, the next ones lie in these heaps, where what is small keeps them from shrinking."""
    with suppress(OSError, AttributeError):  # another C library
        library = ctypes.CDLL("libc.so.6")
        library.mallopt(_M_ARENA_MAX, 2)
        library.mallopt(_M_MMAP_THRESHOLD, 1 << 20)


def give_back() -> None:
    """After much that was small, such as the records of a whole topic."""
    with suppress(OSError, AttributeError):
        ctypes.CDLL("libc.so.6").malloc_trim(0)
