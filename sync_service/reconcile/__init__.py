"""Reconciliation: proves that topic and store agree, lists every difference, and repairs it if asked.

`topic.py` reads what the store should have, `stamps.py` has what rows are ordered by, `digests.py` reduces both sides
to sums by bucket, `comparing.py` finds the rows that differ, `suspects.py` checks each of them again, `settling.py`
gives the route time to write them, `differences.py` holds what was found, `repairing.py` writes it, `reconciliation.py`
runs all of it.
"""

from sync_service.reconcile.differences import Difference, Differences
from sync_service.reconcile.reconciliation import Reconciliation, Report
from sync_service.reconcile.route import reconcile_routes

__all__ = ["Difference", "Differences", "Reconciliation", "Report", "reconcile_routes"]
