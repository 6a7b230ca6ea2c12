"""Spark's Python daemon as a stage runs it: it has imported what its workers need before it forks them.

By itself each worker imports everything anew: half a second and 140 MiB, most of it the compiler of the segments' loops
and their code. Forked from here they share it, and a worker that replaces another one answers at once (ADR 0036).
"""

import gc
import os
from collections.abc import Callable
from socket import socket

from pyspark import daemon

Worker = Callable[[socket, bool], int]

STATE_DIR = "ENRICH_STATE_DIR"
"""Where compiled code may be kept: a variable of the executors' environment."""


def prepare(state_dir: str | None) -> None:
    """Starts no thread that a worker would miss: nothing here is used, only imported."""
    from enrich.host.mirror.compiled_code import keep_compiled_code

    if state_dir is not None:
        keep_compiled_code(state_dir)
    import pyspark.worker  # noqa: F401 - for those that are forked

    import enrich.stage.worker.enriching
    import enrich.stage.worker.task  # noqa: F401
    from stores.segments import load_kept_loops

    load_kept_loops()
    # What was imported is there for good: a worker's collector would copy every page of it.
    gc.collect()
    gc.freeze()


def silent(worker: Worker) -> Worker:
    """A worker that ends without a word once nobody listens any more, as after a drain that cancelled its task: Spark's
    own would write a traceback into the log of the executor."""

    def work(sock: socket, authenticated: bool) -> int:
        try:
            return worker(sock, authenticated)
        except (BrokenPipeError, ConnectionResetError):
            os._exit(1)  # the code that Spark's would end with

    return work


if __name__ == "__main__":
    prepare(os.environ.get(STATE_DIR))
    daemon.worker = silent(daemon.worker)  # type: ignore[assignment] # its arguments have names
    daemon.manager()
