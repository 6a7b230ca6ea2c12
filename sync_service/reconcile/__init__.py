"""Reconciliation: proves that topic and store agree, names every difference, and repairs it when asked.

`topic.py` reads what the store should have, `digests.py` boils both sides down to sums by bucket, `comparing.py` finds
the rows that differ, `suspects.py` looks at each again before it says so, `settling.py` gives the route time for them,
`differences.py` is what was found, `repairing.py` writes it, `reconciliation.py` is all of it.
"""

from sync_service.reconcile.differences import Difference, Differences
from sync_service.reconcile.reconciliation import Reconciliation, Report
from sync_service.reconcile.route import reconcile_routes

__all__ = ["Difference", "Differences", "Reconciliation", "Report", "reconcile_routes"]
