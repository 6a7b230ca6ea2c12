"""Tables that come straight from Redis, PostgreSQL or a file: only the agent reads these, and nobody else on the host.

`source` is the interface of all sources, with one file for each kind beside it. `refreshing` reads a source whole and
finds what changed, `kept` knows what the store has, and `shrinking` doubts a source that suddenly has little.
"""

from enrich.host.loaders.choosing import source_of
from enrich.host.loaders.refreshing import Refreshed, Refresher
from enrich.host.loaders.source import RowSource

__all__ = ["Refreshed", "Refresher", "RowSource", "source_of"]
