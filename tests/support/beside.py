"""Work that goes on in a thread beside a test, as long as a block runs."""

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager


@contextmanager
def beside(work: Callable[[threading.Event], None]) -> Iterator[None]:
    """`work` gets the event that ends it. If it fails, so does the block."""
    stopping = threading.Event()
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(work, stopping)
        try:
            yield
        finally:
            stopping.set()
            running.result()
