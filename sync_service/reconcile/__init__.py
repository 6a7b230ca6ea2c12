"""Reconciliation: proves that topic and store agree, names every difference, and repairs it when asked.

`topic.py` reads what the store should have, `digests.py` boils both sides down to sums by bucket, `comparing.py` finds
the rows that differ and looks again before it says so, `repairing.py` writes them, `reconciliation.py` is all of it.
"""

from sync_service.reconcile.comparing import Difference
from sync_service.reconcile.reconciliation import Reconciliation, Report
from sync_service.reconcile.route import reconcile_routes

__all__ = ["Difference", "Reconciliation", "Report", "reconcile_routes"]
