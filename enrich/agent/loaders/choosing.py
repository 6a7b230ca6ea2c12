"""From a table's section of the configuration to the source of its rows."""

from pathlib import Path

import pyarrow as pa

from enrich.agent.loaders.file import FileSource
from enrich.agent.loaders.keyed_rows import KeyedRows
from enrich.agent.loaders.postgres import PostgresSource
from enrich.agent.loaders.redis import RedisSource
from enrich.agent.loaders.source import RowSource
from enrich.config import Format, Table
from enrich.errors import ConfigError
from stores.external.file_formats import FileFormat


def source_of(name: str, table: Table, work: Path) -> RowSource:
    """`work`: a directory of this table's own. Raises ConfigError for an address that cannot be one."""
    columns: pa.Schema = table.columns.arrow
    loader = table.loader
    where = f"table {name}"
    if loader is not None and loader.redis is not None:
        url = loader.redis.get_secret_value()
        with_hashes = table.format == Format.json
        return RedisSource(url, loader.pattern, columns, hashes=with_hashes, where=f"{where}, {loader.redis}")
    rows = KeyedRows((loader and loader.key) or (), tuple(columns.names))
    if loader is not None and loader.postgres is not None and loader.table is not None:
        return PostgresSource(loader.postgres.get_secret_value(), loader.table, rows, where=where)
    if loader is not None and loader.file is not None and loader.file_format is not None:
        return FileSource(loader.file, FileFormat(loader.file_format), columns, rows, work)
    raise ConfigError("the loader has no source", where=where, next_step="run `enrich config check`")
