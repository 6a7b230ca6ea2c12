"""Spark's Python daemon for a stage: it imports what its workers need before it forks them.

Without it each worker imports everything again: half a second and 140 MiB, most of it the compiler of the segments'
loops and their code. Workers forked from here share that memory, and a replacement answers at once (ADR 0036).
"""

import gc
import os
from collections.abc import Callable
from pathlib import Path
from socket import gethostname, socket

from enrich.stage.spark.installed import prefer_installed

Worker = Callable[[socket, bool], int]

STATE_DIR = "ENRICH_STATE_DIR"
"""The environment variable of executors that names the folder for compiled code."""
BUILD = "ENRICH_BUILD"
"""That of the driver's build."""


def prepare(state_dir: str | None) -> None:
    """Imports what workers use. It must not start threads: a forked worker would not have them."""
    from enrich.host.mirror.compiled_code import keep_compiled_code

    if state_dir is not None:
        keep_compiled_code(state_dir)
    # What tasks are made of: Spark's own code, look-ups, and slots of realtime stages.
    import pyspark.worker  # noqa: F401

    import enrich.stage.library
    import enrich.stage.realtime.slot  # noqa: F401
    from stores.segments import load_kept_loops

    load_kept_loops()
    # Imported objects are never freed: without this a worker's garbage collector would copy all of their pages.
    gc.collect()
    gc.freeze()


def refuse_others(drivers: str | None) -> None:
    """If the driver's build is another one, each task fails and says so. Tasks bring objects of its build, which would
    be of other classes here, or of none. `drivers`: None if it has not told."""
    from enrich.stage.build import build

    own = build()
    if drivers is None or own is None or drivers == own:
        return
    import pyspark.worker

    from enrich.base.errors import ConfigError
    from enrich.stage.task.failures import reported_to_driver

    def refuse(_: object) -> None:
        with reported_to_driver():
            raise ConfigError(
                f"the executor runs other files of enrich (build {own}) than the stage's driver (build {drivers})",
                where=f"host {gethostname()}, {Path(__file__).parents[1]}",
                next_step="give executors the driver's release: make their archive again with `enrich package`, or "
                "install it on their hosts; if files were replaced while the stage runs, start it again",
            )

    vars(pyspark.worker)["check_python_version"] = refuse  # what each task begins with


def silent(worker: Worker) -> Worker:
    """A worker that ends silently when its socket is closed, as after a drain that cancelled its task. Spark's own
    worker would write a traceback to the executor's log."""

    def work(sock: socket, authenticated: bool) -> int:
        try:
            return worker(sock, authenticated)
        except (BrokenPipeError, ConnectionResetError):
            os._exit(1)  # the exit code of Spark's own worker

    return work


if __name__ == "__main__":
    prefer_installed()
    from pyspark import daemon

    prepare(os.environ.get(STATE_DIR))
    refuse_others(os.environ.get(BUILD))
    daemon.worker = silent(daemon.worker)  # type: ignore[assignment] # the original has named arguments
    daemon.manager()
