"""Pages of an HTTP endpoint as a source: read whole at each interval, unless the endpoint says that nothing changed."""

from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager

import pyarrow as pa

from enrich.base.errors import Retryable
from enrich.endpoints.pages import Known, Pages, PagesReader
from stores.clock import SystemClock
from stores.keys import keys_of
from sync_service.sources.polled.json_rows import JsonRows
from sync_service.sources.polled.source import Answer, Extent, Progress, Reading

_MOST_REPEATED = 10
"""Pages without a new row, one after the other. Rows that move from page to page make a few at most."""

_MOST_EMPTY = 1_000
"""Pages without any row, one after the other: where rows are filtered, many may have none."""


class HttpSource:
    readings_until_deleted = 2
    may_rest = True
    hints = None

    def __init__(self, reader: PagesReader, key: tuple[str, ...], columns: pa.Schema) -> None:
        self.key = key
        self._reader = reader
        self._columns = columns

    @contextmanager
    def ask(self, progress: Progress, columns: Sequence[str] | None) -> Iterator[Answer | None]:
        known = Known(*progress.position) if progress.whole_at_ms is not None else Known()
        started = SystemClock().now_ms()
        with closing(self._reader):
            pages = self._reader.read(known)
            if pages is None:
                yield None
                return
            values = tuple(name for name in self._columns.names if columns is None or name in columns)
            rows = Reading(Extent.whole, self._batches(pages), values)
            position = [pages.known.etag, pages.known.modified]
            yield Answer([rows], Progress(whole_at_ms=started, position=position))

    def _batches(self, pages: Pages) -> Iterator[pa.RecordBatch]:
        decoder, seen, repeated, empty = JsonRows(self._columns, self._reader.where), set[bytes](), 0, 0
        for page in pages.rows:
            batch = decoder.batch(page)
            fresh = batch if pages.is_one else _unseen(batch, self.key, seen)
            repeated = repeated + 1 if batch.num_rows and not fresh.num_rows else 0
            if repeated > _MOST_REPEATED:
                raise Retryable(
                    f"its last {repeated} pages have only rows of earlier ones",
                    where=self._reader.where,
                    next_step="correct `next` and `parameter`: it may not know how it is asked for the next page",
                )
            empty = 0 if batch.num_rows else empty + 1
            if empty > _MOST_EMPTY:
                raise Retryable(
                    f"it names a next page after {empty:,} pages without rows",
                    where=self._reader.where,
                    next_step="correct `rows` and `next`: its last page may name another, for rows that come later",
                )
            yield fresh


def _unseen(batch: pa.RecordBatch, key: tuple[str, ...], seen: set[bytes]) -> pa.RecordBatch:
    """Without the rows of earlier pages: a row that is added while the pages are read moves others to the next one."""
    keys = keys_of(batch, key).to_pylist()
    fresh = pa.array([each is None or each not in seen for each in keys], pa.bool_())
    seen.update(each for each in keys if each is not None)
    return batch.filter(fresh)
