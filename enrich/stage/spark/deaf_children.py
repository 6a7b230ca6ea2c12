"""Child processes that ignore SIGTERM: the JVM must not end while the driver finishes the batch under way.

`timeout`, systemd and many shells send a signal to a whole process group. A JVM does not handle a signal that was
ignored when it started; PySpark does this for Ctrl-C only. Spark's own children handle SIGTERM again.
"""

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager

_ignores = False


@contextmanager
def deaf_children() -> Iterator[None]:
    """Processes forked inside the block ignore SIGTERM. This process does not."""
    global _ignores  # a fork hook cannot be unregistered, so it checks this
    _ignores = True
    try:
        yield
    finally:
        _ignores = False


def _in_child() -> None:
    if _ignores:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)


os.register_at_fork(after_in_child=_in_child)
