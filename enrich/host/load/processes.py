"""Loads tables in processes of their own: updates of other tables are not delayed, and memory is free again at the end.

A load in a thread of the agent holds the GIL for up to a second at a time, while updates of all other tables wait
(docs/adr/0016). The processes are forked from a template (a fork server), itself forked from the agent before it has
threads, a database or clients: forking with these would be unsafe, and starting Python anew costs half a second and
more memory. The kernel kills template and loads when their parent dies: none outlives the agent.
"""

import gc
import logging
import os
import shutil
import signal
import socket
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from multiprocessing.connection import Connection as Pipe
from types import FrameType
from typing import Any

from enrich.base.errors import EnrichError, Retryable
from enrich.base.processes import fork
from enrich.config import Pipeline
from enrich.host.ipc.store_paths import StorePaths
from enrich.host.load import child as load_child
from enrich.host.load.loading import Listener, Loaded, Order, load_table
from enrich.host.load.pipe import Job, Task, serve
from stores.protocol import Clock
from stores.rocks import Reserved, RocksStore

_log = logging.getLogger(__name__)

_LOOK_EVERY_S = 0.1

_A_LOAD, _A_TASK = b"l", b"t"
"""What the agent asks the template to fork a process for."""


class LoadProcesses:
    """The agent's side of the template."""

    def __init__(self, template: socket.socket, pipeline: Pipeline, paths: StorePaths, at_once: int) -> None:
        self._template = template
        self._pipeline = pipeline
        self._paths = paths
        self._turns = threading.BoundedSemaphore(at_once)

    @classmethod
    def forked(
        cls, pipeline: Pipeline, paths: StorePaths, at_once: int, *, held: Sequence[int] = ()
    ) -> "LoadProcesses":
        """Must be called while the process has one thread. At most `at_once` loads run; others wait for their turn.
        `held`: descriptors that the forked processes must close."""
        ours, theirs = socket.socketpair()
        must_load = not paths.rows.exists()

        def template() -> int:
            for descriptor in (ours.detach(), *held):
                os.close(descriptor)
            if must_load:
                _import_what_loads_need()  # while the agent makes the store
            _serve_forks(theirs, pipeline, paths)
            return 0

        # The objects that the imports made stay for good. A collection that visits them all would take long each time,
        # and would copy every page of them in a fork.
        gc.freeze()
        fork(template)
        theirs.close()
        return cls(ours, pipeline, paths, at_once)

    def close(self) -> None:
        """Ends the template. Running loads end soon: each asks again and again whether it should stop."""
        self._template.close()

    def load_table(self, store: RocksStore, order: Order, listener: Listener, clock: Clock) -> Loaded | None:
        """Calls `load_table` in another process. Raises Retryable if that process was killed."""
        while not self._turns.acquire(timeout=_LOOK_EVERY_S):
            if listener.should_stop():
                return None
        try:
            return self._load(store, order, listener, clock)
        finally:
            self._turns.release()

    def do(self, task: Task, should_stop: Callable[[], bool]) -> Any:
        """Runs a task in a process of its own, which does not count as a load. Raises what the task raises, and
        Retryable if its process was killed or if it should stop."""
        pipe = self._new_process(_A_TASK)
        if pipe is None:
            return task(self._pipeline, self._paths)
        with pipe:
            try:
                pipe.send(task)
                while not pipe.poll(_LOOK_EVERY_S):
                    if should_stop():
                        raise Retryable("the agent is stopping")
                message = pipe.recv()
            except (EOFError, BrokenPipeError, ConnectionResetError):
                raise Retryable("its process ended before it was done", next_step="see agent.log") from None
        if isinstance(message, EnrichError):
            raise message
        return message.result

    def _load(self, store: RocksStore, order: Order, listener: Listener, clock: Clock) -> Loaded | None:
        pipe = self._new_process(_A_LOAD)
        if pipe is None:
            _log.warning(
                "no process for a load can be forked; the agent loads it itself", extra={"table": order.table.name}
            )
            return load_table(store, order, listener, clock)
        reserved: list[Reserved] = []

        def reserve(name: str) -> Reserved:
            reserved.append(store.reserve(name))
            return reserved[-1]

        answers: dict[str, Callable[..., object]] = {
            "reserve": reserve,
            "ingest": store.ingest,
            "write_unseen": store.write_unseen,
            "swap": store.swap,
            "abandon": store.abandon,
            "progress": listener.progress,
            "quarantined": listener.quarantined,
            "should_stop": listener.should_stop,
        }
        with pipe:
            try:
                pipe.send(Job(order.table.name, order.answer, order.connection, order.head_start))
                # A load that has not ended when this returns dies with the template. The next agent removes its files.
                return serve(pipe, answers, listener.should_stop)
            except (EOFError, BrokenPipeError, ConnectionResetError):
                _give_up(store, reserved)
                raise Retryable(
                    "the process that loaded the table ended before the load was done",
                    where=f"table {order.table.name}",
                    next_step="it is loaded again; if this repeats, see agent.log and the kernel's log (memory?)",
                ) from None
            except EnrichError:
                raise  # the process itself has abandoned the load
            except BaseException:
                _give_up(store, reserved)
                raise

    def _new_process(self, what_for: bytes) -> Pipe | None:
        """A pipe to a new process; None when the template is gone."""
        ours, theirs = socket.socketpair()
        with theirs:
            try:
                socket.send_fds(self._template, [what_for], [theirs.fileno()])
            except OSError:
                ours.close()
                return None
        return Pipe(ours.detach())


def _give_up(store: RocksStore, reserved: Sequence[Reserved]) -> None:
    """Abandons the load in place of the ended process. If the disk is full, the next agent does it."""
    for one in reserved:
        if store.tables[one.table.name].table_id == one.table.table_id:
            continue  # its rows are visible already
        shutil.rmtree(one.work, ignore_errors=True)
        with suppress(EnrichError):
            store.abandon(one.table.table_id)


def _serve_forks(requests: socket.socket, pipeline: Pipeline, paths: StorePaths) -> None:
    """The template's main loop: forks a process for each pipe received, until the agent closes the socket."""
    signal.signal(signal.SIGCHLD, _reap)
    while True:
        word, descriptors, _, _ = socket.recv_fds(requests, 1, 1)
        if not word:
            return
        if word == _A_LOAD:
            _import_what_loads_need()

        def load(pipe: int = descriptors[0]) -> int:
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            requests.close()
            return load_child.load(Pipe(pipe), pipeline, paths)

        fork(load)
        os.close(descriptors[0])


def _import_what_loads_need() -> None:
    """Imported before a load is forked, so that all loads share it. An agent that starts with a loaded store saves it:
    a quarter of a second and 36 MiB."""
    import polars  # noqa: F401


def _reap(signum: int, frame: FrameType | None) -> None:  # noqa: ARG001 - the signature of a handler
    with suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
