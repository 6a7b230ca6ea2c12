"""How many events a stage has seen, and what became of them: exact, batch by batch, from Spark's own observation."""

import json
import threading
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, Protocol
from uuid import UUID

from pyspark import SparkContext
from pyspark.sql import Column, DataFrame, Observation
from pyspark.sql import functions as sql
from pyspark.sql.streaming.listener import (
    JStreamingQueryListener,
    QueryIdleEvent,
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryListener,
    StreamingQueryProgress,
)

from enrich.stage.task.report import BatchReport

_NAME = "enrich"
_REPORTS, _TIMES = "reports", "times"

QUANTILES = (0.0, 0.01, 0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99, 1.0)
"""Of the events' times. What is old stands at the beginning: the 0.05 of the times is the 0.95 of the ages."""
_ACCURACY = 1_000
"""One in so many events: the error of a quantile. Ten times as much takes as long."""


def observed(
    events: DataFrame,
    parts: Mapping[str, Column],
    report: Column,
    time: Column,
    observation: Observation | None = None,
) -> DataFrame:
    """The same events, which are counted as they pass: all of them, and those for which each part is true. What workers
    `report` is collected, and of the events' times a few quantiles. The listener of a stream hears of it, or whoever
    has the observation of one batch."""
    counts = [sql.count_if(condition).alias(name) for name, condition in parts.items()]
    # Of the times as they are: for each number Spark would look for how numbers are compared.
    times = sql.transform(sql.percentile_approx(time, list(QUANTILES), _ACCURACY), sql.unix_millis).alias(_TIMES)
    # Not by collect_set: two workers may tell the same.
    texts = sql.collect_list(report).alias(_REPORTS)
    return events.observe(observation or _NAME, sql.count(sql.lit(1)).alias("events"), *counts, texts, times)


class BatchListener(Protocol):
    """Whoever wants to know more of each batch than the totals."""

    def batch_done(
        self,
        progress: StreamingQueryProgress,
        counts: Mapping[str, int],
        tallies: Sequence[BatchReport],
        times_ms: Sequence[int] | None,
    ) -> None: ...


class _ByText(JStreamingQueryListener):
    """Takes Spark's word of a batch in one piece.

    PySpark asks the JVM for each of its parts, some of them by names that the JVM looks for in all of its archives: an
    eighth of the processor time of a stage with three batches a second.
    """

    def onQueryProgress(self, jevent: Any) -> None:  # noqa: N802 - Spark's name
        progress = json.loads(jevent.progress().json())
        self.pylistener.onQueryProgress(QueryProgressEvent(StreamingQueryProgress.fromJson(progress)))


class StageCounts(StreamingQueryListener):
    """Adds up what the batches of all queries of a session counted."""

    def __init__(self, *listeners: BatchListener) -> None:
        self._listeners = listeners
        self._totals: Counter[str] = Counter()
        self._of_batches: dict[int, Mapping[str, Any]] = {}
        self._ended: set[UUID] = set()
        self._changed = threading.Condition()

    @cached_property
    def _jlistener(self) -> Any:
        jvm: Any = SparkContext._jvm
        return jvm.org.apache.spark.sql.streaming.PythonStreamingQueryListenerWrapper(_ByText(self))

    def wait_for_end(self, run: UUID, deadline_s: float = 30.0) -> bool:
        """Whether all batches of this run of a query are counted. Spark tells of them some time after they are done,
        and of the end last."""
        with self._changed:
            return self._changed.wait_for(lambda: run in self._ended, deadline_s)

    def totals(self) -> dict[str, int]:
        """Since the start, by `events`, `dropped` and `dead_letters`."""
        with self._changed:
            return dict(self._totals)

    def written(self, batch: int, found: Mapping[str, Any]) -> None:
        """What was observed of a batch that is a job of its own: Spark's word of the batch does not hold it."""
        with self._changed:
            self._of_batches[batch] = found

    def onQueryStarted(self, event: QueryStartedEvent) -> None:  # noqa: N802 - Spark's names
        """Nothing yet."""

    def onQueryProgress(self, event: QueryProgressEvent) -> None:  # noqa: N802
        row = event.progress.observedMetrics.get(_NAME)
        with self._changed:
            of_batch = self._of_batches.pop(event.progress.batchId, {})
            found = dict(of_batch) if row is None else row.asDict()
            if not found:
                return
            times_ms, reports = found.pop(_TIMES), found.pop(_REPORTS)
            self._totals.update({name: int(count) for name, count in found.items()})
        for listener in self._listeners:
            listener.batch_done(event.progress, found, [BatchReport.parse(text) for text in reports], times_ms)

    def onQueryIdle(self, event: QueryIdleEvent) -> None:  # noqa: N802
        """Nothing new."""

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:  # noqa: N802
        """The totals stay."""
        with self._changed:
            self._ended.add(event.runId)
            self._changed.notify_all()
