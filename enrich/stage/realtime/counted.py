"""What the slots of all runs of a driver have counted, added up for its metrics."""

from collections.abc import Mapping

from enrich.stage.measure.counting import ON_ROUTE
from enrich.stage.measure.metrics import StageMetrics
from enrich.stage.realtime.counts import Counts
from enrich.tally.lags import NO_LAG


class Counted:
    """For one driver."""

    def __init__(self, metrics: StageMetrics) -> None:
        self._metrics = metrics
        self._before: dict[int, Counts] = {}
        self._totals = {"events": 0, "dropped": 0, "dead_letters": 0}

    def begin(self) -> None:
        """The slots of a new run count from zero."""
        self._before = {}

    def slots(self, counts: Mapping[int, Counts]) -> None:
        for slot, now in counts.items():
            new = now.since(self._before.get(slot, Counts()))
            self._before[slot] = now
            if not new.numbers["events"]:
                continue
            for name in self._totals:
                self._totals[name] += new.numbers[name]
            self._metrics.pieces_done(self._parts_of(new), new.report, new.lags.now or NO_LAG)

    @staticmethod
    def _parts_of(new: Counts) -> Mapping[str, int]:
        return {**new.numbers, **{f"{ON_ROUTE}{route}": count for route, count in new.routes.items()}}

    def totals(self) -> Mapping[str, int]:
        return dict(self._totals)
