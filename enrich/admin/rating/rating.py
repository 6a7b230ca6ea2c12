"""Rates a pipeline that runs, and keeps the rating with its evidence in the topic `<pipeline>.ratings`."""

import json
import math
import platform
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from enrich.admin.cluster import Cluster
from enrich.admin.rating.arriving import Arrivals
from enrich.admin.rating.climbing import Climb, Step, Void, climb
from enrich.admin.rating.generating import Sent, Target, sent
from enrich.admin.rating.samples import Samples
from enrich.admin.rating.ways import RatedWay
from enrich.base.errors import ConfigError, Unreachable
from enrich.config import Pipeline
from enrich.kafka import COMPACTED, Connection, DeliveringProducer, Topics, read_topic
from enrich.tally import Node
from enrich.tally.writing import PARTITIONS, TOPIC_SETTINGS
from enrich.verdict import minute_text

_WARM_S = 5.0
_WARM_SHARE = 0.3
"""Of a step: what leaves in this first part does not count."""
_SAID_S = 2.0
"""Nodes say within this what has left."""
_QUIET_S, _MOST_QUIET_S = 3.0, 120.0
_TAKEN_SHARE = 0.999
_GROWTH, _NOISE_MS = 1.4, 50.0
_KEPT_SHARE = 0.95
"""Of the events that leave at the lowest rate: fewer at a higher one are a backlog."""


@dataclass(frozen=True)
class Condition:
    p95_ms: float
    step_s: float
    first: float
    most: float


class Rater:
    def __init__(
        self,
        arrivals: Arrivals,
        condition: Condition,
        samples: Samples,
        new_target: Callable[[], Target],
        per_request: int,
        report: Callable[[str], None],
    ) -> None:
        self._arrivals = arrivals
        self._condition = condition
        self._samples = samples
        self._new_target = new_target
        self._per_request = per_request
        self._report = report
        self._usual: float | None = None
        """The share of events that leave, while nothing is behind: routes and filters keep some."""
        self._has_held = False
        """Some rate has. Until then the share is that of the lowest, which is the newest."""

    def run(self) -> Climb:
        """Raises Void, and Unreachable if not even the first events are taken."""
        self._report("warming up")
        first = min(self._condition.first, self._condition.most)
        began_ms = _now_ms()
        done = self._sent(first, min(_WARM_S, self._condition.step_s))
        if not done.taken:
            why = done.why or "every request was refused"
            raise Unreachable(f"no event was taken: {why}", next_step="check that the pipeline runs, and its token")
        self._wait_for_the_first(began_ms)
        return climb(first, self._condition.most, self._attempt)

    def _attempt(self, rate: float) -> Step:
        self._settle()
        step_s = self._condition.step_s
        began_ms = _now_ms()
        done = self._sent(rate, step_s)
        ended_ms = _now_ms()
        time.sleep(_SAID_S)
        whole = self._arrivals.between(began_ms, ended_ms + round(_SAID_S * 1000))
        if whole.clamped > whole.count / 2:
            share = f"{whole.clamped / whole.count:.0%} of the events at {rate:,.0f} events/s"
            raise Void(
                f"{share} left before they were due, by the clock of the last node",
                next_step="synchronise its clock and this host's (NTP): lags are between both",
            )
        from_ms = began_ms + round(step_s * 1000 * _WARM_SHARE)
        middle_ms = (from_ms + ended_ms) // 2
        halves = [self._arrivals.between(from_ms, middle_ms), self._arrivals.between(middle_ms, ended_ms)]
        p95_ms = (halves[0] + halves[1]).quantile(0.95)
        if whole.count and not self._has_held:
            self._usual = whole.count / done.due
        why = self._breaks(done, whole.count, p95_ms, [half.quantile(0.95) for half in halves])
        self._has_held = self._has_held or why is None
        step = Step(rate, done.taken / step_s, whole.count / step_s, p95_ms, done.late_share, why)
        shown = "-" if p95_ms is None else f"{p95_ms:,.0f} ms"
        self._report(f"{rate:,.0f} events/s: {step.left:,.0f} leave, p95 {shown}: {why or 'holds'}")
        return step

    def _sent(self, rate: float, seconds: float) -> Sent:
        return sent(rate, seconds, self._samples, self._new_target, self._per_request)

    def _breaks(self, done: Sent, left: int, p95_ms: float | None, halves: Sequence[float | None]) -> str | None:
        if done.taken < done.due * _TAKEN_SHARE:
            why = f": {done.why}" if done.why else ""
            return f"{1 - done.taken / done.due:.1%} were not taken{why}"
        if p95_ms is None or self._usual is None:
            return "nothing left the last node"
        if left < done.due * self._usual * _KEPT_SHARE:
            return "events stay behind"
        if p95_ms > self._condition.p95_ms:
            return f"p95 is above {self._condition.p95_ms:,.0f} ms"
        first, second = halves
        # What is a little too much shows by this before it shows by anything else.
        if first is not None and second is not None and second > first * _GROWTH + _NOISE_MS:
            return f"it falls behind: p95 rises from {first:,.0f} to {second:,.0f} ms"
        return None

    def _wait_for_the_first(self, began_ms: int) -> None:
        """A node that has just been started delivers nothing yet, which looks as if all had left; and then at once what
        waited for it."""
        end_s = time.monotonic() + _MOST_QUIET_S
        while not self._arrivals.between(began_ms, _now_ms() + 60_000) and time.monotonic() < end_s:
            time.sleep(0.5)

    def _settle(self) -> None:
        """Until nothing has left for a while: a step must not pay for the one before it."""
        end_s = time.monotonic() + _MOST_QUIET_S
        while time.monotonic() < end_s:
            now_ms = _now_ms()
            if not self._arrivals.between(now_ms - round(_QUIET_S * 1000), now_ms + 60_000):
                return
            time.sleep(0.5)


def keep(pipeline: Pipeline, cluster: Cluster, way: RatedWay, condition: Condition, found: Climb) -> dict[str, Any]:
    """Writes the rating, and returns it."""
    topic = pipeline.ratings_topic
    cluster.topics.ensure(topic, partitions=1, config=COMPACTED)
    rating = {
        "route": way.name,
        "entry": way.entry,
        "rating_per_s": round(found.rating),
        "is_bounded": found.is_bounded,
        "condition": {"p95_ms": condition.p95_ms, "step_s": condition.step_s},
        "at_ms": _now_ms(),
        "generator": {"host": platform.node(), "python": platform.python_version()},
        "steps": [asdict(step) for step in found.steps],
    }
    with DeliveringProducer(cluster.connection) as producer:
        producer.produce(topic, key=way.name.encode(), value=json.dumps(rating).encode())
    return rating


def kept(pipeline: Pipeline, topics: Topics, connection: Connection) -> Sequence[dict[str, Any]]:
    """The newest rating of each way."""
    topic = pipeline.ratings_topic
    if not topics.is_there(topic):
        return []
    found: dict[bytes, dict[str, Any]] = {}
    for batch in read_topic(connection, topic, topics.start_offsets(topic), topics.end_offsets(topic)):
        for message in batch:
            value = message.value()
            rating = None if value is None else _read(value)
            if rating is not None:
                found[message.key() or b""] = rating
    return [found[key] for key in sorted(found)]


def _read(value: bytes) -> dict[str, Any] | None:
    """None: it is none, or not a whole one; anybody may write into a topic."""
    try:
        found = json.loads(value)
        numbers = [found["rating_per_s"], found["at_ms"], found["condition"]["p95_ms"]]
        texts = [found["route"]]
        for step in found["steps"]:
            numbers += [step["rate"], step["taken"], step["left"]]
            numbers += [] if step["p95_ms"] is None else [step["p95_ms"]]
            texts += [] if step["breaks"] is None else [step["breaks"]]
        # What JSON has as Infinity and NaN is no JSON for browsers: the observer's page gets the rating.
        usable = all(isinstance(text, str) for text in texts) and all(map(math.isfinite, numbers))
        minute_text(int(found["at_ms"]) // 60_000)
    except (ValueError, KeyError, TypeError, RecursionError, OverflowError, OSError):
        return None
    return dict(found) if usable and "is_bounded" in found else None


def arrivals_of(pipeline: Pipeline, cluster: Cluster, node: Node) -> Arrivals:
    """Raises ConfigError if the pipeline writes no tallies."""
    topic = pipeline.tallies_topic
    if topic is None:
        raise ConfigError("the pipeline writes no tallies", where="tallies", next_step="write `tallies: true`")
    cluster.topics.ensure(topic, partitions=PARTITIONS, config=TOPIC_SETTINGS)
    return Arrivals(cluster.connection, cluster.topics, topic, node)


def _now_ms() -> int:
    return time.time_ns() // 10**6
