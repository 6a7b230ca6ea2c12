"""Write-back: topics to external stores. Every row ends in the store, in its newest version, or in the DLQ.

`route.py` is a route, made of: `flow.py` (a consumer group that reads, writes and commits in this order), `records.py`
(records to rows with versions), `writing.py` (a batch to the store, its bad rows singled out), `onward.py` (where a row
goes that the store does not take), `generation.py` (which topic it was that the versions count in).
"""

from sync_service.writeback.building import writeback_routes
from sync_service.writeback.route import WritebackRoute

__all__ = ["WritebackRoute", "writeback_routes"]
