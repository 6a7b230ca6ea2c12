"""The size of a table and how far its history reaches back, as any reader on the host can see it."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from enrich.config import Access, Pipeline
from enrich.config.sections.host.memory_shares import memory_shares
from enrich.host.ipc.header import TableState
from enrich.host.ipc.store_paths import paths_of
from enrich.host.reader.reading import RowsReader
from enrich.host.reader.segments import SegmentsHold
from enrich.host.tables import all_tables
from stores.rocks.read.whole import WholeTable
from stores.table import HistoryFloor, Offsets

if TYPE_CHECKING:
    from stores.segments import Stats
    from stores.segments.segment import Segment

_NO_ROOM = "memory.budget leaves no room for segments of tables with `access: auto`"


@dataclass(frozen=True)
class TableStats:
    table: str
    state: TableState
    """The agent's state of the table, from the header."""
    access: Access
    """As configured."""
    mapped: "Stats | None"
    """The size of its segments. None if the table is read from RocksDB."""
    in_memory: int | None
    """Bytes of the segments in the page cache, once for all workers. None if the system does not report it."""
    why_not_mapped: str | None
    rocks_bytes: int
    history_ms: int
    floors: Mapping[int, HistoryFloor]
    positions: Offsets

    @property
    def floor(self) -> int | None:
        """A look-up as of an earlier time (milliseconds) is answered `expired`; None if there is no floor."""
        return max((floor.timestamp for floor in self.floors.values()), default=None)


def table_stats(pipeline: Pipeline, names: Sequence[str], holder: Callable[[], int]) -> Iterator[TableStats]:
    """Starts the agent when there is none; does not wait until the tables are ready."""
    paths, specs = paths_of(pipeline), {name: table.spec for name, table in all_tables(pipeline).items()}
    room = memory_shares(pipeline.memory).mapped
    reader = RowsReader(pipeline, holder=holder, tables=names)
    mirrored = {name: specs[name] for name in names if pipeline.tables[name].access is not Access.rocks}
    hold = SegmentsHold(paths.segments, mirrored, pipeline.state_dir)
    try:
        snapshot = reader.snapshot()
        segments = hold.newest()
        for name in names:
            access = pipeline.tables[name].access
            mapped = in_memory = why_not = None
            if access is not Access.rocks:
                why_not = "there are no segments yet" if room or access is Access.mapped else _NO_ROOM
                if segments is not None:
                    why_not = segments.why_not(name) or None
                    if why_not is None:
                        mapped, in_memory = _sizes(segments.segments(name))
            whole: WholeTable = snapshot.views[name].whole()
            yield TableStats(
                name,
                snapshot.header.tables[name],
                access,
                mapped,
                in_memory,
                why_not,
                whole.bytes_on_disk(),
                specs[name].history_ms,
                whole.state.floors,
                whole.state.positions,
            )
    finally:
        hold.close()
        reader.close()


def _sizes(segments: "Sequence[Segment]") -> "tuple[Stats, int | None]":
    from stores.segments import bytes_in_memory, stats_of

    return stats_of(segments), bytes_in_memory(segments)
