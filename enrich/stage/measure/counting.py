"""How many events a stage has read, and what became of them: exact for each batch, from Spark's `observe`."""

import base64
import json
import threading
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, Protocol
from uuid import UUID

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

from enrich.stage.java import java_class
from enrich.stage.task.report import BatchReport
from enrich.tally.encoding import decoded_lag
from enrich.tally.lags import NO_LAG, Lag

_NAME = "enrich"
_REPORTS, _ROUTES, _LAGS = "reports", "routes", "lags"
ON_ROUTE = "on_route_"
"""With a route's name: how many events took it."""


def observed(
    events: DataFrame,
    is_event: Column,
    parts: Mapping[str, Column],
    report: Column,
    routes: Column,
    lags: Column,
    observation: Observation | None = None,
) -> DataFrame:
    """The same rows, counted as they pass: all events, and for each part those for which it is true. The workers'
    `report` texts, those of `routes` and of `lags` are collected too. The result goes to the stream's listener, or to
    `observation`, for one batch."""
    counts = [sql.count_if(is_event & condition).alias(name) for name, condition in parts.items()]
    # Not collect_set: two workers may report the same text.
    texts = [
        sql.collect_list(sql.when(is_event, text)).alias(name)
        for name, text in {_REPORTS: report, _ROUTES: routes, _LAGS: lags}.items()
    ]
    return events.observe(observation or _NAME, sql.count_if(is_event).alias("events"), *counts, *texts)


class BatchListener(Protocol):
    """Receives the details of each batch."""

    def batch_done(
        self,
        progress: StreamingQueryProgress,
        counts: Mapping[str, int],
        tallies: Sequence[BatchReport],
        lag: Lag,
    ) -> None: ...


class _ByText(JStreamingQueryListener):
    """Takes a batch's progress from the JVM as one JSON text.

    PySpark asks the JVM for each part, some of them by names that the JVM searches for in all of its jars: an eighth of
    the processor time of a stage with three batches a second.
    """

    def onQueryProgress(self, jevent: Any) -> None:  # noqa: N802 - Spark's name
        progress = json.loads(jevent.progress().json())
        self.pylistener.onQueryProgress(QueryProgressEvent(StreamingQueryProgress.fromJson(progress)))


class StageCounts(StreamingQueryListener):
    """Adds up the counts of the batches of all queries of a session."""

    def __init__(self, *listeners: BatchListener) -> None:
        self._listeners = listeners
        self._totals: Counter[str] = Counter()
        self._of_batches: dict[int, Mapping[str, Any]] = {}
        self._ended: set[UUID] = set()
        self._changed = threading.Condition()

    @cached_property
    def _jlistener(self) -> Any:
        return java_class("org.apache.spark.sql.streaming.PythonStreamingQueryListenerWrapper")(_ByText(self))

    def wait_for_end(self, run: UUID, deadline_s: float = 30.0) -> bool:
        """Whether all batches of this run of a query are counted. Spark reports batches some time after they are done,
        and the end of the query last."""
        with self._changed:
            return self._changed.wait_for(lambda: run in self._ended, deadline_s)

    def totals(self) -> dict[str, int]:
        """Since the start, by `events`, `dropped` and `dead_letters`."""
        with self._changed:
            return dict(self._totals)

    def written(self, batch: int, found: Mapping[str, Any]) -> None:
        """Takes the observation of a batch that `foreachBatch` wrote: Spark's progress event does not have it."""
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
            reports, lags = found.pop(_REPORTS), found.pop(_LAGS)
            for text in found.pop(_ROUTES):
                for route, count in json.loads(text).items():
                    found[f"{ON_ROUTE}{route}"] = found.get(f"{ON_ROUTE}{route}", 0) + count
            self._totals.update({name: int(count) for name, count in found.items()})
        lag = sum((decoded_lag(base64.b64decode(text)) for text in lags), start=NO_LAG)
        for listener in self._listeners:
            listener.batch_done(event.progress, found, [BatchReport.parse(text) for text in reports], lag)

    def onQueryIdle(self, event: QueryIdleEvent) -> None:  # noqa: N802
        """Nothing new."""

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:  # noqa: N802
        """The totals stay."""
        with self._changed:
            self._ended.add(event.runId)
            self._changed.notify_all()
