"""Makes the source of a table's rows from the table's section of the configuration."""

from pathlib import Path

from enrich.base.errors import ConfigError
from enrich.config import Format, Loader, Table
from enrich.host.loaders.source import RowSource

# Drivers are imported only if a table needs them: all of them take 20 MiB and 0.14 s of every agent's start.


def source_of(name: str, table: Table, work: Path) -> RowSource:
    """`work`: a directory that only this table uses. Does not connect yet."""
    loader = table.loader or Loader()
    if loader.redis is not None:
        from enrich.host.loaders.redis import RedisSource

        url, where = loader.redis.get_secret_value(), f"table {name}, {loader.redis}"
        with_hashes = table.format == Format.json
        return RedisSource(url, loader.pattern, table.columns.arrow, hashes=with_hashes, where=where)
    from enrich.host.loaders.keyed_rows import KeyedRows

    rows = KeyedRows(loader.key or (), table.columns.names)
    if loader.postgres is not None and loader.table is not None:
        from enrich.host.loaders.postgres import PostgresSource

        return PostgresSource(loader.postgres.get_secret_value(), loader.table, rows, where=f"table {name}")
    if loader.file is not None and loader.file_format is not None:
        from enrich.host.loaders.file import CsvSource, FileSource
        from stores.external.files.formats import FileFormat

        if loader.file_format == FileFormat.csv:
            return CsvSource(loader.file, table.columns.arrow, rows, work)
        return FileSource(loader.file, FileFormat(loader.file_format), table.columns.arrow, rows, work)
    raise ConfigError("the loader has no source", where=f"table {name}", next_step="run `enrich config check`")
