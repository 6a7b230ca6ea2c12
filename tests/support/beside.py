"""Work that goes on in a thread beside a test, as long as a block runs."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def beside(work: Callable[[threading.Event], None]) -> Iterator[None]:
    """`work` gets the event that ends it. If it fails, so does the block."""
    stopping = threading.Event()
    failures: list[BaseException] = []

    def run() -> None:
        try:
            work(stopping)
        except BaseException as error:  # noqa: BLE001 - raised below
            failures.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    except Exception as error:
        if failures:
            raise failures[0] from error
        raise
    finally:
        stopping.set()
        thread.join()
    if failures:
        raise failures[0]
