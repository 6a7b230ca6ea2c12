"""Tables that are loaded straight from Redis, PostgreSQL or a file. Only the agent connects to these sources.

`source` is the interface of all sources, with one module for each kind beside it. `refreshing` reads a whole source and
finds what changed; it distrusts a source that suddenly has few rows.
"""

from enrich.host.loaders.choosing import source_of
from enrich.host.loaders.refreshing import Refreshed, Refresher
from enrich.host.loaders.source import RowSource

__all__ = ["Refreshed", "Refresher", "RowSource", "source_of"]
