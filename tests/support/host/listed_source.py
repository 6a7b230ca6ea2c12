"""A source of a loader table whose rows a test gives, for what depends on the rows alone."""

from collections.abc import Callable, Iterator, Sequence

import pyarrow as pa

from enrich.host.loaders.source import SOURCE_ROWS, SourceBatch


class ListedSource:
    def __init__(self, *batches: Sequence[tuple[bytes, bytes]]) -> None:
        self.contents = batches

    def batches(self, stopping: Callable[[], bool]) -> Iterator[SourceBatch]:  # noqa: ARG002 - it never takes long
        for rows in self.contents:
            columns = [pa.array([row[side] for row in rows], pa.binary()) for side in (0, 1)]
            yield SourceBatch(pa.RecordBatch.from_arrays(columns, schema=SOURCE_ROWS), {"are odd": 1})
