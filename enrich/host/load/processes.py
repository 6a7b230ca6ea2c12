"""Loads tables in processes of their own: publications of the others keep their pace, memory comes back at the end.

A load in a thread of the agent holds the interpreter's lock for up to a second at a time, while updates of all other
tables wait (docs/adr/0016). The processes are forked from a template, itself forked from the agent before it has
threads, a database or clients: forking with these would be unsafe, starting Python anew costs half a second and more
memory. Template and loads are killed by the kernel when their parent dies: none outlives the agent.
"""

import ctypes
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
from enrich.config import Pipeline
from enrich.host.ipc.store_paths import StorePaths
from enrich.host.load import child as load_child
from enrich.host.load.loading import Listener, Loaded, Order, load_table
from enrich.host.load.pipe import Job, Task, serve
from stores.protocol import Clock
from stores.rocks import Reserved, RocksStore

_log = logging.getLogger(__name__)

_PR_SET_PDEATHSIG = 1
_LOOK_EVERY_S = 0.1

_A_LOAD, _A_TASK = b"l", b"t"
"""What a process is asked for."""


class LoadProcesses:
    """The agent's hand on the template."""

    def __init__(self, template: socket.socket, pipeline: Pipeline, paths: StorePaths, at_once: int) -> None:
        self._template = template
        self._pipeline = pipeline
        self._paths = paths
        self._turns = threading.BoundedSemaphore(at_once)

    @classmethod
    def forked(
        cls, pipeline: Pipeline, paths: StorePaths, at_once: int, *, held: Sequence[int] = ()
    ) -> "LoadProcesses":
        """To be called by a process that has one thread. So many loads run `at_once`, the others wait for their turn.
        `held`: open files that nobody else may keep open."""
        ours, theirs = socket.socketpair()
        parent = os.getpid()
        loads_at_once = not paths.rows.exists()
        # What the imports made is there for good. A collection that looked at all of it would take long each time, and
        # in a fork copy every page of it.
        gc.freeze()
        if os.fork() == 0:
            _die_with(parent)
            for descriptor in (ours.detach(), *held):
                os.close(descriptor)
            try:
                if loads_at_once:
                    _import_what_loads_need()  # while the agent makes the store
                _serve_forks(theirs, pipeline, paths)
            finally:
                os._exit(1)  # whatever happened: it must never go on as a second agent
        theirs.close()
        return cls(ours, pipeline, paths, at_once)

    def close(self) -> None:
        """Ends the template. Loads that run end by themselves: each asks again and again whether it should stop."""
        self._template.close()

    def load_table(self, store: RocksStore, order: Order, listener: Listener, clock: Clock) -> Loaded | None:
        """As `load_table` does it. Raises Retryable when the process that loads was killed."""
        while not self._turns.acquire(timeout=_LOOK_EVERY_S):
            if listener.should_stop():
                return None
        try:
            return self._load(store, order, listener, clock)
        finally:
            self._turns.release()

    def do(self, task: Task, should_stop: Callable[[], bool]) -> Any:
        """Has a task done by a process of its own, beside all loads. Raises what it raises, Retryable when its process
        was killed, or when it is to stop."""
        pipe = self._new_process(_A_TASK)
        if pipe is None:
            return task(self._pipeline, self._paths)
        with pipe:
            try:
                pipe.send(task)
                while not pipe.poll(_LOOK_EVERY_S):
                    if should_stop():
                        raise Retryable("told to stop")
                said = pipe.recv()
            except (EOFError, BrokenPipeError, ConnectionResetError):
                raise Retryable("the process that did it ended before it was done", next_step="see agent.log") from None
        if isinstance(said, EnrichError):
            raise said
        return said.result

    def _load(self, store: RocksStore, order: Order, listener: Listener, clock: Clock) -> Loaded | None:
        pipe = self._new_process(_A_LOAD)
        if pipe is None:
            _log.warning(
                "no process can be made for a load; the agent does it itself", extra={"table": order.table.name}
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
                # A load that is left alone dies with the template, and the next agent removes its files.
                return serve(pipe, answers, listener.should_stop)
            except (EOFError, BrokenPipeError, ConnectionResetError):
                _give_up(store, reserved)
                raise Retryable(
                    "the process that loaded the table ended before it was done",
                    where=f"table {order.table.name}",
                    next_step="it is loaded again; if this repeats, see agent.log and the kernel's log (memory?)",
                ) from None
            except EnrichError:
                raise  # the process itself has given up
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
    """What the ended process would have done. On a full disk the next agent does it."""
    for one in reserved:
        if store.tables[one.table.name].table_id == one.table.table_id:
            continue  # it had been shown already
        shutil.rmtree(one.work, ignore_errors=True)
        with suppress(EnrichError):
            store.abandon(one.table.table_id)


def _serve_forks(requests: socket.socket, pipeline: Pipeline, paths: StorePaths) -> None:
    """The template's life: a process for each pipe that comes, until the agent closes its end of the socket."""
    signal.signal(signal.SIGCHLD, _reap)
    while True:
        word, descriptors, _, _ = socket.recv_fds(requests, 1, 1)
        if not word:
            os._exit(0)
        if word == _A_LOAD:
            _import_what_loads_need()
        parent = os.getpid()
        if os.fork() == 0:
            _die_with(parent)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            requests.close()
            os._exit(load_child.load(Pipe(descriptors[0]), pipeline, paths))
        os.close(descriptors[0])


def _import_what_loads_need() -> None:
    """Before a load is forked, so that it is there for all of them. An agent that comes back to a loaded store does
    without: a quarter of a second and 36 MiB."""
    import polars  # noqa: F401


def _die_with(parent: int) -> None:
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # it died before the kernel knew
        os._exit(1)


def _reap(signum: int, frame: FrameType | None) -> None:  # noqa: ARG001 - the signature of a handler
    with suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
