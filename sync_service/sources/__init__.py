"""Sources: external systems whose rows become records of compacted topics. Used only by the sync service.

`polled` has the interface of an external system that is asked, and its implementations. `known` remembers what the
topic holds, finds what an answer changes, and asks a person before too much is deleted. `route` and `rounds` run all of
it for one source. `logged` follows a change log. docs/sources.md and docs/cdc.md say what users may rely on.
"""

from sync_service.sources.building import source_routes

__all__ = ["source_routes"]
