"""Children that hear no SIGTERM: the JVM must live on while the driver finishes the batch under way.

`timeout`, systemd and many shells send a signal to a whole process group. A JVM leaves a signal alone that was ignored
when it started; PySpark sees to that for Ctrl-C only. Spark's own children listen again.
"""

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager

_wanted = False


@contextmanager
def deaf_children() -> Iterator[None]:
    """For processes that are forked meanwhile. This one goes on listening."""
    global _wanted  # a hook at a fork stays for good, and asks
    _wanted = True
    try:
        yield
    finally:
        _wanted = False


def _in_child() -> None:
    if _wanted:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)


os.register_at_fork(after_in_child=_in_child)
