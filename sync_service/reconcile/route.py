"""The periodic reconciliation of a write-back route: compares, reports how many rows differ, and changes nothing."""

import logging
import threading
import time

from enrich.base.backoff import Backoff
from enrich.base.errors import EnrichError
from enrich.config import Pipeline
from enrich.service.routes import Route, RouteKind, RouteState, RouteStatus
from sync_service.reconcile.differences import KINDS
from sync_service.reconcile.reconciliation import Reconciliation, Report
from sync_service.writeback.generation import Generation
from sync_service.writeback.plan import WritebackPlan, plans_of
from sync_service.writeback.route import Clients

# How often the route's note is looked at.
_LOOK_S = 30.0
_LONGEST_PAUSE_S = 3_600.0
"""After a comparison that failed: each may read the whole topic."""

_log = logging.getLogger("enrich.sync")


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
        self._differing: int | None = None
        """Rows, by the last comparison that is known of: one of this instance, of another one, or a person's."""
        self._at_ms: int | None = None
        self._runs = 0
        self._doubt: str | None = None
        """The last doubt that was compared."""
        self._error: str | None = None
        self._error_ms: int | None = None

    @property
    def name(self) -> str:
        return f"{self._plan.name}.reconcile"

    def run(self, stopping: threading.Event) -> None:
        # Counts as progress: the writing route has checked the store, so a later ConfigError must not stop the service.
        self._at_ms = self._at_ms or time.time_ns() // 1_000_000
        look_s = pause = min(self._interval_s, _LOOK_S)
        due, backoff = time.monotonic() + self._interval_s, Backoff(look_s, _LONGEST_PAUSE_S)
        while not stopping.wait(pause):
            try:
                if self._compare(stopping, time.monotonic() >= due):
                    due = time.monotonic() + self._interval_s
                backoff.reset()
                pause = look_s
            except EnrichError as error:
                # It delays no row: it is reported, and the service stays ready.
                pause = backoff.next_s()
                if not stopping.is_set():
                    self._error, self._error_ms = str(error), time.time_ns() // 1_000_000
                    _log.warning("the reconciliation failed: %s", error, extra={"route": self.name})

    def _compare(self, stopping: threading.Event, is_due: bool) -> bool:
        """Compares if it is due, or if the route doubts its rows, and returns whether it did."""
        reconciliation = Reconciliation(self._plan, self._clients, stopping)
        doubt = self._doubt
        if not is_due:
            noted = reconciliation.noted()
            self._hear(noted)
            doubt = None if noted is None else noted.doubt
            is_news = doubt is not None and doubt != self._doubt
            if not is_news and not self._is_overdue(noted):
                self._doubt = doubt
                return False
        self._report = reconciliation.run(repair=False)
        self._differing = self._report.differing
        self._doubt = doubt
        self._error, self._error_ms = None, None
        self._at_ms = time.time_ns() // 1_000_000
        self._runs += 1
        return True

    def _hear(self, noted: Generation | None) -> None:
        """What others have found, or repaired, since."""
        own_ms = None if self._report is None else self._report.began_ms
        if noted is not None and noted.compared_ms not in (None, own_ms):
            self._differing = noted.differing

    def _is_overdue(self, noted: Generation | None) -> bool:
        """Also a service that is restarted every day compares every day."""
        if noted is None or noted.compared_ms is None:
            return False
        since_s = (time.time_ns() // 1_000_000 - noted.compared_ms) / 1000
        return not 0 <= since_s < self._interval_s

    def status(self) -> RouteStatus:
        report = self._report
        gauges: dict[str, float] = {}
        details: dict[str, object] = {"every_s": self._interval_s}
        if self._differing is not None:
            gauges["differences"] = self._differing
        if report is not None:
            gauges["reconcile_seconds"] = report.seconds
            kinds = sorted(kind for kind in KINDS if report.differences.count_of(kind))
            details |= {"rows": report.rows, "kinds": kinds, "generation_to_raise": report.raised}
            details |= {"left": report.left, "foreign": report.foreign}
        return RouteStatus(
            self.name,
            self.kind,
            RouteState.running,
            lag=0,
            last_error=self._error,
            last_error_ms=self._error_ms,
            last_progress_ms=self._at_ms,
            counters={"reconciliations": self._runs},
            gauges=gauges,
            details=details,
        )
