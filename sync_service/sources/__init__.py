"""Sources: external systems whose rows become records of compacted topics. For the sync service's own use.

`source` has the interface that a kind of system implements; `postgres` and `files` do. `known_rows` remembers what the
topic holds, `differences` finds what an answer changes of it, `deletions` asks a person before too much disappears,
`route` runs it all for one source. docs/sources.md says what users may rely on.
"""

from sync_service.sources.building import source_routes

__all__ = ["source_routes"]
