"""The agent's process: one store, one lock, one loop, until SIGTERM or until nobody needs it any more."""

import contextlib
import json
import logging
import os
import shutil
import signal
import sys
import time
import uuid
from collections.abc import Callable, Mapping
from functools import partial
from logging.handlers import RotatingFileHandler
from pathlib import Path
from types import FrameType
from typing import TypedDict

import numpy.ma  # noqa: F401 - numpy imports it when `unique` is first called, which an update would wait for

from enrich.base.errors import CorruptState, EnrichError, Fenced
from enrich.base.folders import make_folder
from enrich.base.logs import JsonLines
from enrich.config import Pipeline
from enrich.config.sections.host.memory_shares import memory_shares
from enrich.config.wire import from_wire
from enrich.host.ipc.header import HeaderWriter
from enrich.host.ipc.imports import Imports
from enrich.host.ipc.leases import LeaseWatch
from enrich.host.ipc.lock import StoreLock
from enrich.host.ipc.requests import (
    DEMAND,
    PURGE,
    REBUILD,
    REFRESH,
    SCHEMAS,
    SUSPECT,
    SUSPECT_SEGMENTS,
    WAIT,
    Orders,
    RequestServer,
)
from enrich.host.ipc.store_paths import StorePaths, paths_of
from enrich.host.load.processes import LoadProcesses
from enrich.host.load.snapshots import HeadStarts
from enrich.host.memory_use import memory_use, reader_sizes, store_sizes
from enrich.host.mirror.compiled_code import keep_compiled_code
from enrich.host.mirror.keeper import segments_beside
from enrich.host.on_demand import wire
from enrich.host.on_demand.keeper import OnDemandKeeper
from enrich.host.process.agent import Agent
from enrich.host.process.metrics import AgentMetrics, agent_page
from enrich.host.process.old_stores import OldStores
from enrich.host.process.own_code import OwnCode
from enrich.host.reader.schemas import SchemaDesk
from enrich.host.tables import AnyTable, TopicTable, all_tables
from enrich.kafka.clients.settings import librdkafka_settings
from enrich.service.page import serve_page
from enrich.service.program import exit_after
from stores.clock import SystemClock
from stores.files import mapped_files
from stores.protocol import QuarantineId, TableSpec
from stores.rocks import RocksReader, RocksStore, Sizes

_log = logging.getLogger("enrich.agent")

_SWITCH_S = 0.0005
"""How long a thread may hold the GIL while others wait. The loop releases and retakes the GIL for each call into Kafka,
Arrow and RocksDB: at Python's default of 5 ms it would make no progress while the segments engine is imported."""


_STOP_S = 25.0
"""If stopping takes longer, a driver hangs: the process ends anyway. The store is whole whenever that is."""

_ANOTHER_RELEASE = (
    "no agent runs here: the program that started this one is of another release than the files that it runs from now, "
    "which were replaced under it; start that program again"
)


class _Terminated(BaseException):
    """SIGTERM: `enrich agent stop`. Not an Exception, so that no handler takes it for a failure."""


class Start(TypedDict):
    """What the starter writes to standard input."""

    lock: str
    """Path of the lock file by which the agent of the store is elected."""
    pipeline: str
    linger_s: float | None


def run(start: Start, lock: StoreLock) -> int:
    """Runs the agent, which holds the store's lock. Returns its exit code."""
    os.chdir("/")  # everything is imported by now, and the agent must not keep its starter's directory busy
    paths = StorePaths(Path(start["lock"]).parent)
    _log_to(paths)
    pipeline = _of_this_release(start["pipeline"], paths)
    if pipeline is None:
        _log.error(_ANOTHER_RELEASE)  # its starter reads this line, and waits in vain
        return 1
    sys.setswitchinterval(_SWITCH_S)
    keep_compiled_code(pipeline.state_dir)
    # Fork now: there is one thread, no database and no client yet.
    shares = memory_shares(pipeline.memory)
    loads = LoadProcesses.forked(pipeline, paths, shares.loads_at_once, held=[lock.descriptor])
    signal.signal(signal.SIGTERM, _on_sigterm)
    try:
        linger_s = start["linger_s"] or pipeline.agent.linger.total_seconds()
        with contextlib.closing(loads):
            _run(pipeline, paths, lock, loads, linger_s=linger_s)
    except _Terminated:
        _log.info("the agent stops: SIGTERM")
    except Fenced as error:
        _log.warning(str(error))
        return 1
    except EnrichError as error:
        _log.error(str(error))
        return 1
    except Exception:  # noqa: BLE001 - the process's top: a bug is logged, and the exit code says so
        _log.exception("this is a bug in enrich; the agent stops, and the next reader starts another")
        return 1
    return 0


def _of_this_release(text: str, paths: StorePaths) -> Pipeline | None:
    """None if the starter has another release in memory: it looks for an agent where this one would not be."""
    try:
        pipeline = from_wire(text)
    except ValueError:
        return None
    return pipeline if paths_of(pipeline) == paths else None


def _run(pipeline: Pipeline, paths: StorePaths, lock: StoreLock, loads: LoadProcesses, linger_s: float) -> None:
    while True:
        try:
            _serve(pipeline, paths, lock, loads, linger_s)
        except CorruptState as error:
            # The topics have everything. Readers of the old store notice that it was replaced.
            _log.error("the store is damaged and is rebuilt", extra={"reason": str(error)})
            # What looks like damage may be the store of another agent, in a directory that was deleted and recreated.
            lock.require_held()
            _delete_rows(paths)
        else:
            return


def _delete_rows(paths: StorePaths) -> None:
    """Moves them away first: files that cannot be deleted must not be taken for the new store, now or the next time."""
    make_folder(paths.damaged)
    with contextlib.suppress(FileNotFoundError), mapped_files(paths.rows):  # somebody may have deleted all of them
        paths.rows.rename(paths.damaged / uuid.uuid4().hex)
    shutil.rmtree(paths.damaged, ignore_errors=True)


def _serve(pipeline: Pipeline, paths: StorePaths, lock: StoreLock, loads: LoadProcesses, linger_s: float) -> None:
    clock = SystemClock()
    tables = all_tables(pipeline)
    specs = {name: table.spec for name, table in tables.items()}
    with contextlib.ExitStack() as held:
        shares = memory_shares(pipeline.memory)
        store = RocksStore(paths.rows, specs, clock, sizes=store_sizes(shares))
        held.callback(store.close)
        segments = segments_beside(store, pipeline, paths, specs, loads, clock)
        held.callback(segments.close)
        header = HeaderWriter(paths.header)
        held.callback(header.close)
        leases = LeaseWatch(paths.leases)
        held.callback(leases.close)
        connection = librdkafka_settings(pipeline.kafka)
        snapshots = pipeline.snapshots
        head_starts = None if snapshots is None else HeadStarts(Path(snapshots.path), pipeline.name)
        agent = Agent(
            store,
            tables,
            connection,
            header,
            clock,
            verify=partial(_verify, paths, specs, reader_sizes(shares)),
            load=loads.load_table,
            head_starts=head_starts,
            imports=Imports(paths.imports),
            remarks=segments.remarks,
        )
        held.callback(agent.close)
        memory = partial(memory_use, shares, store, segments.stats)
        metrics = AgentMetrics(pipeline.name, lambda: agent.header, memory, segments.stats)
        orders = {**_orders(agent, tables), SUSPECT_SEGMENTS: lambda _: segments.suspect()}
        questions = {SCHEMAS: SchemaDesk(pipeline).answer}
        requests = RequestServer(paths.folder, metrics.exposition, orders, questions)
        held.callback(requests.close)
        if pipeline.agent.metrics_port is not None:
            next_step = "give each pipeline of a host another agent.metrics_port"
            address, port = pipeline.agent.metrics_address, pipeline.agent.metrics_port
            server = serve_page(address, port, agent_page(pipeline.name, lambda: agent.header, metrics), next_step)
            if server is not None:
                held.callback(server.close)
        _log.info("the agent runs", extra={"tables": ", ".join(tables), "folder": str(paths.folder)})
        needed_until, code, old = time.monotonic() + linger_s, OwnCode(), OldStores(paths.folder)
        looked_at = 0.0
        while time.monotonic() < needed_until:
            agent.step()
            if time.monotonic() - looked_at >= 1:
                looked_at = time.monotonic()
                lock.require_held()
                old.look()
                if _is_needed(leases):
                    needed_until = looked_at + linger_s
                if not code.is_there():
                    _log.warning("the agent stops: the files that it runs from were deleted; a reader starts another")
                    return
        _log.info("the agent stops: nobody has needed it for some time", extra={"seconds": linger_s})


def _is_needed(leases: LeaseWatch) -> bool:
    try:
        return bool(leases.living())
    except OSError as error:  # no descriptor is left, and nobody knows: it stays
        _log.warning("the agent cannot see who needs it", extra={"reason": str(error)})
        return True


def _orders(agent: Agent, tables: Mapping[str, AnyTable]) -> Orders:
    orders: dict[str, Callable[[bytes], object]] = {
        REFRESH: lambda _: agent.refresh(),
        SUSPECT: lambda _: agent.suspect(),
    }
    for name, table in tables.items():
        orders[PURGE + name] = partial(_purge, agent, name)
        if isinstance(table, TopicTable):
            orders[REBUILD + name] = partial(_rebuild, agent, name)
    for name, keeper in agent.on_demand.items():
        orders[DEMAND + name] = partial(_demand, keeper)
        orders[WAIT + name] = partial(_wait, keeper)
    return orders


def _demand(keeper: OnDemandKeeper, body: bytes) -> None:
    keeper.want(wire.keys_in(body))


def _wait(keeper: OnDemandKeeper, body: bytes) -> bytes:
    waited = wire.waiting_in(body)
    return wire.seq_sent(keeper.wait(waited.keys, waited.patience_s))


def _rebuild(agent: Agent, table: str, _: bytes) -> None:
    agent.rebuild(table)


def _purge(agent: Agent, table: str, ids: bytes) -> None:
    agent.purge(table, [QuarantineId(*one) for one in json.loads(ids)])


def _verify(paths: StorePaths, specs: Mapping[str, TableSpec], sizes: Sizes) -> None:
    with contextlib.closing(RocksReader(paths.rows, specs, sizes=sizes)) as reader:
        reader.verify()


def _on_sigterm(signum: int, frame: FrameType | None) -> None:  # noqa: ARG001 - the signature of a handler
    exit_after(_STOP_S)
    raise _Terminated


def _log_to(paths: StorePaths) -> None:
    handler = RotatingFileHandler(paths.log, maxBytes=5 << 20, backupCount=3, encoding="utf-8")
    handler.setFormatter(JsonLines())
    logging.basicConfig(handlers=[handler], level=logging.INFO, force=True)
    # What native libraries write to stdout and stderr would otherwise be lost.
    with paths.log.with_suffix(".err").open("ab") as errors:
        os.dup2(errors.fileno(), sys.stderr.fileno())
        os.dup2(errors.fileno(), sys.stdout.fileno())
