"""Write-back: topics to external stores. Every row ends up in the store, in its newest version, or in the DLQ.

`route.py` is a route. It uses `records.py` (records to rows with versions), `sink.py` (what becomes of a batch),
`writing.py` (a batch to the store, its bad rows singled out), `onward.py` (refused rows to a retry topic or the DLQ)
and `generation.py` (which topic the versions belong to). The consumer group is in `enrich.delivery`.
"""

from sync_service.writeback.old_tiers import OldTiersRoute
from sync_service.writeback.route import Clients, WritebackRoute

__all__ = ["Clients", "OldTiersRoute", "WritebackRoute"]
