"""Stages in threads of a test, with one session of Spark: their starts and ends without those of a program."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from pyspark.sql import SparkSession

from enrich.base.errors import WouldLoseData
from enrich.stage.progress.starting import From
from enrich.stage.run.stage_run import StageRun
from enrich.stage.run.start import RunOptions
from enrich.stage.spark.profiles import stage_settings
from tests.support.stage.world import StageWorld
from tests.support.waiting import wait_until

LOOKUP = {"table": "users", "key": "user_id", "as": "user"}


class Run:
    """A stage in a thread of the test, with a session that all tests share."""

    def __init__(
        self, spark: SparkSession, world: StageWorld, stage: str, start: From | None = None, **choices: Any
    ) -> None:
        self.stop = threading.Event()
        self.error: Exception | None = None
        settings, options = stage_settings(world.pipeline.stages[stage]), RunOptions(start=start, **choices)
        arguments = (spark, world.pipeline, stage, settings, options, self.stop)
        self._thread = threading.Thread(target=self._run, args=arguments)
        self._thread.start()

    def _run(self, *arguments: Any) -> None:
        try:
            StageRun(*arguments).run()
        except Exception as error:  # noqa: BLE001 - what it is, the test says
            self.error = error

    def end(self) -> Any:
        """The error that it ended with, None when it drained."""
        self._thread.join(120)
        assert not self._thread.is_alive(), "the stage does not end"
        return self.error


@contextmanager
def running(
    spark: SparkSession, world: StageWorld, stage: str, start: From | None = None, **choices: Any
) -> Iterator[Run]:
    run = Run(spark, world, stage, start, **choices)
    try:
        yield run
    finally:
        run.stop.set()
        run.end()


def until_all(world: StageWorld, stage: str, number: int, run: Run | None = None) -> None:
    """Waits for so many events in the output."""

    def all_there() -> bool:
        assert run is None or run.error is None, run.error
        return world.records(stage) >= number and len(world.seen(stage)) >= number

    wait_until(all_there, what=f"{number} events")


def run_until(spark: SparkSession, world: StageWorld, stage: str, number: int, **choices: Any) -> None:
    """Runs until there are so many events in the output, and drains."""
    with running(spark, world, stage, **choices) as run:
        until_all(world, stage, number, run)
        run.stop.set()
        assert run.end() is None


def refused(spark: SparkSession, world: StageWorld, stage: str, **choices: Any) -> WouldLoseData:
    """Why the stage does not start."""
    error = Run(spark, world, stage, **choices).end()
    assert isinstance(error, WouldLoseData), error
    return error
