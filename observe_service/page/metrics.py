"""The same figures for Prometheus. Of a way without a verdict there is no figure: a missing one is not zero."""

from collections.abc import Iterable, Iterator, Sequence

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from enrich.service.exposing import exposed
from enrich.verdict import MinuteVerdict, Up
from observe_service.page.state import State

_COUNTS = ("lost", "dropped", "dead", "waiting", "unknown", "duplicates")


def exposition(state: State, pipeline: str) -> bytes:
    return exposed(_Figures(state), pipeline)


class _Figures(Collector):
    def __init__(self, state: State) -> None:
        self._state = state

    def collect(self) -> Iterator[Metric]:
        verdicts = self._state.verdicts_now()
        yield from _of_minutes(verdicts)
        yield from self._of_days()
        status = self._state.status()
        observer = status["observer"]
        yield _gauge("enrich_observe_ready", "1 if it has read what was written before.", [((), observer["ready"])])
        troubled = bool(observer["trouble"])
        yield _gauge("enrich_observe_troubled", "1 if it cannot read or write now.", [((), troubled)])
        known = observer["known_until_ms"] / 1000
        yield _gauge("enrich_observe_known_until_seconds", "Unix time up to which all reports are read.", [((), known)])
        yield _gauge("enrich_observe_alarms", "Alarms that are on.", [((), len(status["alarms"]))])
        yield _gauge(
            "enrich_observe_peak_events_per_second", "Of the busiest minute.", [((), self._state.peak_per_s())]
        )
        for name in ("reports", "verdicts", "unreadable"):
            counter = CounterMetricFamily(f"enrich_observe_{name}", f"{name.capitalize()} since it started.")
            counter.add_metric([], observer[name])
            yield counter

    def _of_days(self) -> Iterator[Metric]:
        today = {name: day for name, day in self._state.state_of_today().items() if day["share"] is not None}
        for key, text in (("up", "Minutes of today that were up."), ("unknown", "Minutes of today that are unknown.")):
            yield _gauge(
                f"enrich_observe_today_{key}_minutes", text, [((n,), d[key]) for n, d in today.items()], "route"
            )
        down = [((name,), len(day["down"])) for name, day in today.items()]
        yield _gauge("enrich_observe_today_down_minutes", "Minutes of today that were down.", down, "route")


def _of_minutes(verdicts: Sequence[MinuteVerdict]) -> Iterator[Metric]:
    ways = [((verdict.route,), verdict) for verdict in verdicts]
    yield _gauge(
        "enrich_observe_minute_seconds",
        "Unix time of the newest minute with a verdict.",
        [(labels, verdict.minute * 60) for labels, verdict in ways],
        "route",
    )
    yield _gauge(
        "enrich_observe_up",
        "1 if that minute was up, 0 if it was down.",
        [(labels, verdict.up is Up.UP) for labels, verdict in ways if verdict.up is not Up.UNKNOWN],
        "route",
    )
    yield _gauge(
        "enrich_observe_in", "Events that came.", [(labels, verdict.came) for labels, verdict in ways], "route"
    )
    yield _gauge(
        "enrich_observe_out", "Events that went.", [(labels, verdict.went) for labels, verdict in ways], "route"
    )
    for fate in _COUNTS:
        counts = [(labels, verdict.total(fate)) for labels, verdict in ways]
        yield _gauge(f"enrich_observe_{fate}", f"Events of that minute: {fate}.", counts, "route")
    for share in (0.5, 0.95, 0.99):
        found = [(labels, verdict.quantile_ms(share)) for labels, verdict in ways]
        known = [(labels, value / 1000) for labels, value in found if value is not None]
        name = f"enrich_observe_p{round(share * 100)}_seconds"
        yield _gauge(name, "End to end; events that were not delivered are infinitely late.", known, "route")


Values = Iterable[tuple[tuple[str, ...], float]]


def _gauge(name: str, text: str, values: Values, *labels: str) -> GaugeMetricFamily:
    gauge = GaugeMetricFamily(name, text, labels=labels)
    for label_values, value in values:
        gauge.add_metric(label_values, float(value))
    return gauge
