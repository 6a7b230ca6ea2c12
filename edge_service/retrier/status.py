"""What the page says about the retrier of a route, pause by pause."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass

from edge_service.retrier.places import Places
from edge_service.retrier.plan import RetryPlan
from edge_service.retrier.reading import Reading
from enrich.base.errors import EnrichError
from enrich.service.meters import Meter
from enrich.service.routes import RouteKind, RouteState, RouteStatus


@dataclass(frozen=True)
class ShownPause:
    """One retry topic. Only of the partitions that this instance has: others show theirs."""

    pause: str
    topic: str
    waiting: int | None
    """Records that are not forwarded; None: not known yet."""
    due: int
    """Of these, how many should be forwarded by now, as far as they were read."""
    oldest_due_s: float
    """For how long the first of them is due."""
    forwarded: int
    """Since the route was started."""
    partitions: int


@dataclass(frozen=True)
class Shown:
    """A moment of the route, kept for whoever asks."""

    pauses: tuple[ShownPause, ...] = ()
    state: RouteState = RouteState.starting
    why: str | None = None
    since_ms: int | None = None
    progressed_ms: int | None = None


def shown(
    plan: RetryPlan,
    reading: Reading,
    places: Places,
    trouble: EnrichError | None,
    forwarded: Mapping[str, int],
    now_s: float,
    before: Shown,
) -> Shown:
    lines = reading.lines()
    pauses = []
    for topic, pause in plan.pauses.items():
        own = [line for line in lines if line.topic == topic]
        due = [line.due_s for line in own if line.due_s is not None and line.due_s <= now_s]
        pauses.append(
            ShownPause(
                pause.text,
                topic,
                places.waiting(topic, own),
                sum(line.count_due(now_s) for line in own),
                round(now_s - min(due), 3) if due else 0.0,
                forwarded[topic],
                len(own),
            )
        )
    state, why = _state(reading, places, trouble, has_lines=bool(lines))
    now_ms = time.time_ns() // 1_000_000
    goes_on = state in (RouteState.running, RouteState.standby)
    since_ms = None if why is None else before.since_ms if why == before.why else now_ms
    return Shown(tuple(pauses), state, why, since_ms, now_ms if goes_on else before.progressed_ms)


def _state(
    reading: Reading, places: Places, trouble: EnrichError | None, *, has_lines: bool
) -> tuple[RouteState, str | None]:
    if trouble is not None:
        return RouteState.waiting, str(trouble)
    if reading.is_away:
        return RouteState.waiting, "no broker answers; the route continues when one does"
    if places.missing:
        listed = ", ".join(places.missing)
        return RouteState.waiting, f"there is no topic {listed}; `enrich topics apply` or `enrich expel run` makes it"
    if reading.group is None or not places.known:
        return RouteState.starting, None
    return (RouteState.running if has_lines else RouteState.standby), None


def status_of(name: str, moment: Shown, meter: Meter, warnings: Sequence[str]) -> RouteStatus:
    waiting = [pause.waiting for pause in moment.pauses]
    known = [number for number in waiting if number is not None]
    return RouteStatus(
        name,
        RouteKind.retry,
        moment.state,
        lag=sum(known) if waiting and len(known) == len(waiting) else None,
        rows_per_s=round(meter.per_second(), 1),
        last_error=moment.why,
        last_error_ms=moment.since_ms,
        last_progress_ms=moment.progressed_ms,
        counters=meter.totals(),
        gauges={
            "partitions": sum(pause.partitions for pause in moment.pauses),
            "due": sum(pause.due for pause in moment.pauses),
            "oldest_due_seconds": max((pause.oldest_due_s for pause in moment.pauses), default=0.0),
        },
        details={"pauses": [asdict(pause) for pause in moment.pauses], "warnings": warnings},
    )
