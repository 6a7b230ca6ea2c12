"""Rows from a PostgreSQL table or view, all as of one moment."""

from collections.abc import Callable, Iterator

from enrich.base.errors import ConfigError
from enrich.host.loaders.keyed_rows import KeyedRows
from enrich.host.loaders.source import SourceBatch
from stores.external.postgres.reading import PostgresReader
from stores.external.postgres.session import is_address

_STALLED_S = 30.0
"""Longer than for Redis: a view may have to be sorted before it returns its first row."""


class PostgresSource:
    """See `RowSource`."""

    def __init__(self, dsn: str, table: str, rows: KeyedRows, *, where: str) -> None:
        self._dsn = dsn
        self._table = table
        self._rows = rows
        self._where = where

    def batches(self, stopping: Callable[[], bool]) -> Iterator[SourceBatch]:
        self._require_address()
        reader = PostgresReader(self._dsn, stopping=stopping, stalled_s=_STALLED_S)
        with reader.snapshot() as snapshot:
            for batch in snapshot.rows(snapshot.shape(self._table), self._rows.names):
                yield self._rows.of(batch)

    def _require_address(self) -> None:
        if not is_address(self._dsn):
            raise ConfigError(
                "this is not an address of a PostgreSQL database",
                where=self._where,
                next_step="write it as postgresql://user:password@host/database",
            )
