"""The periodic reconciliation of a write-back route: it compares, tells how many rows differ, and changes nothing."""

import threading
import time

from enrich.config import Pipeline
from sync_service.reconcile.reconciliation import Reconciliation, Report
from sync_service.routes import Route, RouteKind, RouteState, RouteStatus
from sync_service.writeback.plan import WritebackPlan, plans_of
from sync_service.writeback.route import Clients


def reconcile_routes(pipeline: Pipeline) -> list[Route]:
    clients = Clients(pipeline)
    return [ReconcileRoute(plan, clients) for plan in plans_of(pipeline) if plan.section.reconcile]


class ReconcileRoute:
    """See `Route`."""

    kind = RouteKind.writeback

    def __init__(self, plan: WritebackPlan, clients: Clients) -> None:
        self._plan = plan
        self._clients = clients
        self._interval_s = plan.section.reconcile.total_seconds()
        self._report: Report | None = None
        self._at_ms: int | None = None
        self._runs = 0

    @property
    def name(self) -> str:
        return f"{self._plan.name}.reconcile"

    def run(self, stopping: threading.Event) -> None:
        # Its store was looked at by the route that writes to it: what is wrong later is not wrong from the start.
        self._at_ms = self._at_ms or time.time_ns() // 1_000_000
        while not stopping.wait(self._interval_s):
            self._report = Reconciliation(self._plan, self._clients, stopping).run(repair=False)
            self._at_ms = time.time_ns() // 1_000_000
            self._runs += 1

    def status(self) -> RouteStatus:
        report = self._report
        gauges: dict[str, float] = {}
        details: dict[str, object] = {"every_s": self._interval_s}
        if report is not None:
            gauges = {"differences": len(report.differences), "reconcile_seconds": report.seconds}
            kinds = sorted({difference.kind for difference in report.differences})
            details |= {"rows": report.rows, "kinds": kinds, "generation_to_raise": report.raised}
        return RouteStatus(
            self.name,
            self.kind,
            RouteState.running,
            lag=0,
            last_progress_ms=self._at_ms,
            counters={"reconciliations": self._runs},
            gauges=gauges,
            details=details,
        )
