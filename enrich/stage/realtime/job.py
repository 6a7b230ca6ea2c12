"""The Spark job of a run: one task for each slot. Spark places the slots, shows them, and begins one again whose worker
or executor has died."""

import threading
import time
from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from enrich.base.errors import EnrichError
from enrich.config import Pipeline, to_wire
from enrich.stage.plan.limits import Limits
from enrich.stage.realtime.slot import SlotSpec, run_slot
from enrich.stage.realtime.taking_over import Run
from enrich.stage.spark.in_arrow import mapped
from enrich.stage.steps.leaving.records import WorkerPlan
from enrich.stage.task.failures import MARK, from_report, reported_to_driver

QUERY = "sql.streaming.queryId"
"""What tallies are told by: the id that Spark gives a query."""
_SIGN = pa.RecordBatch.from_pydict({"sign": pa.array([bytes(1 << 17)], pa.binary())})
"""A sign of life. Larger than the buffer between a worker and its JVM, so that it is written at once: this is how a
worker learns that its task was cancelled."""
_SIGN_EVERY_S = 0.25
_STOP_S = 10.0


class SlotJobFailed(Exception):
    """Workers or executors died more often than Spark begins a task again."""

    def __init__(self, error: EnrichError) -> None:
        super().__init__(str(error))
        self.error = error


class SlotJob:
    """Runs from its making until it fails, or is stopped."""

    def __init__(
        self,
        spark: SparkSession,
        pipeline: Pipeline,
        stage: str,
        run: Run,
        plan: WorkerPlan,
        query: str,
        limits: Limits,
    ) -> None:
        self._spark = spark
        wire = to_wire(pipeline)
        self._specs = [SlotSpec(wire, run.group, run.id, n, own, plan, limits) for n, own in enumerate(run.slots)]
        self._about = f"{stage}: {len(run.partitions)} partitions, {len(run.slots)} slots"
        self._query = query
        self._group = f"enrich-{uuid4()}"
        self._failure: EnrichError | SlotJobFailed | None = None
        self._thread = threading.Thread(target=self._run, name="slots", daemon=True)
        self._thread.start()

    def has_ended(self, within_s: float) -> bool:
        """Raises what a slot has reported, and SlotJobFailed if none has."""
        self._thread.join(within_s)
        if self._thread.is_alive():
            return False
        if self._failure is not None:
            raise self._failure
        return True

    def ended_slots(self) -> int:
        """How many have ended while others are at work."""
        tracker = self._spark.sparkContext.statusTracker()
        jobs = (tracker.getJobInfo(each) for each in tracker.getJobIdsForGroup(self._group))
        stages = (tracker.getStageInfo(each) for job in jobs if job is not None for each in job.stageIds)
        return sum(stage.numCompletedTasks for stage in stages if stage is not None)

    def stop(self) -> bool:
        """What slots have not committed yet they leave to those who come next. Returns whether the job has ended."""
        if self._thread.is_alive():
            self._cancel()
            self._thread.join(_STOP_S)
        return not self._thread.is_alive()

    def _cancel(self) -> None:
        # Also if Spark does not know of it yet, which `cancelJobGroup` would forget.
        jvm: Any = self._spark.sparkContext._jsc
        jvm.sc().cancelJobGroupAndFutureJobs(self._group)

    def _run(self) -> None:
        context = self._spark.sparkContext
        context.setJobGroup(self._group, self._about, interruptOnCancel=True)
        context.setLocalProperty(QUERY, self._query)
        frame = self._spark.range(0, len(self._specs), 1, len(self._specs))
        try:
            # Not a sink: that would call a cancelled job a failed one, at length.
            mapped(frame, _running(self._specs), "sign binary")._jdf.queryExecution().toRdd().count()
        except (PySparkException, Py4JError, OSError) as error:  # the last one of a JVM that has ended
            found = from_report(str(error))
            self._failure = found if MARK in str(error) else SlotJobFailed(found)


def _running(specs: list[SlotSpec]) -> Any:
    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                said = 0.0
                with reported_to_driver():
                    for _ in run_slot(specs[number]):
                        if time.monotonic() - said >= _SIGN_EVERY_S:
                            said = time.monotonic()
                            yield _SIGN

    return run
