"""Makes the source of a table on demand, and of the keys to preload, from the table's section of the configuration."""

from collections.abc import Callable

from enrich.base.errors import ConfigError
from enrich.config import Loader
from enrich.endpoints.pages.configured import request_of, shown
from enrich.host.on_demand.fetching import HttpRows
from enrich.host.on_demand.loads import KeySource
from enrich.host.on_demand.preloading import PreloadKeys
from enrich.host.tables import OnDemandTable
from enrich.kafka import Connection


def source_by_key(table: OnDemandTable, stopping: Callable[[], bool]) -> KeySource:
    """Does not connect yet."""
    loader = table.section.loader or Loader()
    if loader.http is None:
        raise ConfigError(
            "no source of single rows", where=f"table {table.name}", next_step="run `enrich config check`"
        )
    # Tried again by whoever needs it, and not by a thread that others wait for.
    request, url = request_of(loader, tries=1), loader.http.get_secret_value()
    return HttpRows(url, request, f"table {table.name}, {shown(loader.http)}", stopping)


def preload_of(table: OnDemandTable, connection: Connection) -> PreloadKeys | None:
    preload = table.section.preload
    if preload is None:
        return None
    return PreloadKeys(preload, connection, table.section.max_entries, f"table {table.name}")
