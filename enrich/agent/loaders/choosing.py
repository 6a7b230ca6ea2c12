"""From a table's section of the configuration to the source of its rows."""

import pyarrow as pa

from enrich.agent.loaders.redis import RedisSource
from enrich.agent.loaders.source import RowSource
from enrich.config import Format, Table
from enrich.errors import ConfigError


def source_of(name: str, table: Table) -> RowSource:
    """Raises ConfigError for an address that cannot be one, or a kind that is not built."""
    columns: pa.Schema = table.columns.arrow
    loader = table.loader
    if loader is not None and loader.redis is not None:
        return RedisSource(
            loader.redis.get_secret_value(),
            loader.pattern,
            columns,
            hashes=table.format == Format.json,
            where=f"table {name}, {loader.redis}",
        )
    raise ConfigError(f"table `{name}`: this loader is not built yet", next_step="give the table a topic")
