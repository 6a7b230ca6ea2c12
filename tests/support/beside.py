"""Work that goes on in a thread beside a test, as long as a block runs."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def beside(work: Callable[[threading.Event], None]) -> Iterator[None]:
    """`work` gets the event that ends it."""
    stopping = threading.Event()
    thread = threading.Thread(target=work, args=[stopping])
    thread.start()
    try:
        yield
    finally:
        stopping.set()
        thread.join()
