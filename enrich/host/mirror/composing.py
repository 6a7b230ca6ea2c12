"""Sets up an agent's segments: which tables have them, who builds their bases, how much memory they may take."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from enrich.config import Access, Pipeline
from enrich.config.sections.host.memory_shares import memory_shares
from enrich.host.ipc.store_paths import StorePaths
from enrich.host.load.processes import LoadProcesses
from enrich.host.memory_use import reader_sizes
from enrich.host.mirror.bases import BaseOrder, BaseTask, CompileTask, TooLarge
from enrich.host.mirror.bases import make_base as make_base_here
from enrich.host.mirror.keeper import Mirrored, SegmentsKeeper
from stores.protocol import Clock, TableSpec
from stores.rocks import RocksStore

if TYPE_CHECKING:
    from stores.segments import Written


_FEW_ROWS = 10_000
"""Up to so many rows, a base is built in the agent: a process takes a second, most of it to import the engine."""


def segments_beside(
    store: RocksStore,
    pipeline: Pipeline,
    paths: StorePaths,
    specs: Mapping[str, TableSpec],
    processes: LoadProcesses,
    clock: Clock,
) -> SegmentsKeeper:
    """The segments of all tables that have any. Must be called before the first publication."""

    def make_base(order: BaseOrder, should_stop: Callable[[], bool]) -> "Written | TooLarge":
        if store.tables[order.table].rows <= _FEW_ROWS:
            return make_base_here(paths.rows, specs, reader_sizes(shares), order)
        made: Written | TooLarge = processes.do(BaseTask(order), should_stop)
        return made

    def prepare(should_stop: Callable[[], bool]) -> None:
        from stores.segments import are_loops_kept, compile_loops

        if not are_loops_kept():
            processes.do(CompileTask(), should_stop)
        compile_loops()  # reads them from disk; done here, so that no publication waits for it

    shares = memory_shares(pipeline.memory)
    return SegmentsKeeper(
        store,
        paths.segments,
        mirrored_tables(pipeline, specs, shares.mapped),
        make_base,
        clock,
        room=shares.mapped,
        prepare=prepare,
    )


def mirrored_tables(pipeline: Pipeline, specs: Mapping[str, TableSpec], room: int) -> Mapping[str, Mirrored]:
    """Those with `access: mapped`; those with `auto` only if there is any room: the engine itself takes memory."""
    ways = (Access.mapped, Access.auto) if room else (Access.mapped,)
    access = {name: table.access for name, table in pipeline.tables.items()}
    return {name: Mirrored(specs[name], access[name]) for name in specs if access[name] in ways}
