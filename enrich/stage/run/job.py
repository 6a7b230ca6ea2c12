"""Starts a stage as a program: what can be checked before Spark, the session, and the signals that ask for the end."""

import logging
import os
import signal
import subprocess
import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from types import FrameType

from pyspark import SparkContext
from pyspark.sql import SparkSession

from enrich.base.errors import ConfigError, EnrichError, Fatal
from enrich.codecs import registry_trouble
from enrich.config import Pipeline, Replay
from enrich.host.reader.spawn import ensure_agent
from enrich.kafka import librdkafka_settings
from enrich.stage.build import build
from enrich.stage.daemon import BUILD, STATE_DIR
from enrich.stage.run.stage_run import StageRun
from enrich.stage.run.start import RunOptions
from enrich.stage.run.topics import checked_topics
from enrich.stage.spark.profiles import StageSettings, stage_settings
from enrich.stage.spark.session import is_local, stage_session

_log = logging.getLogger(__name__)

_DYING_S = 5.0
"""How long a JVM that does not answer any more may take to end."""


def run_stage(pipeline: Pipeline, name: str, options: RunOptions) -> None:
    """Runs until it is told to stop, and has drained. Raises an error of our tree when it cannot go on."""
    settings = _checked(pipeline, name, options)
    # Before Spark, which takes seconds to start, and knows of no broker that is away.
    checked_topics(pipeline, name, librdkafka_settings(pipeline.kafka))
    if str(pipeline.stages[name].source.format) == "avro":
        trouble = registry_trouble(pipeline.kafka.registry)
        if trouble is not None:
            _log.warning(
                "the registry cannot be used: an event with a schema that its host has not read yet ends the stage",
                extra={"reason": str(trouble)},
            )
    # A line and more for each batch that Spark hands to Python.
    logging.getLogger("py4j").setLevel(logging.WARNING)
    if pipeline.stages[name].lookups and is_local(options.master):
        _begin_agent(pipeline)
    stop = threading.Event()
    with _signals_set(stop):
        spark = stage_session(
            f"enrich {pipeline.name} {name}",
            master=options.master,
            settings={
                f"spark.executorEnv.{STATE_DIR}": pipeline.state_dir,
                **_own_build(options.master),
                **settings.session,
                **options.settings,
            },
            started=_begin_workers if is_local(options.master) else None,
        )
        with _said_of_a_dead_jvm(spark):
            try:
                StageRun(spark, pipeline, name, settings, options, stop).run()
            finally:
                spark.stop()


@contextmanager
def _said_of_a_dead_jvm(spark: SparkSession) -> Iterator[None]:
    """Whatever is asked of one that has ended raises something else. Most often the system has killed it."""
    try:
        yield
    except Exception as error:
        java: subprocess.Popen[bytes] | None = getattr(spark.sparkContext._gateway, "proc", None)
        if java is None or isinstance(error, EnrichError):
            raise
        with suppress(subprocess.TimeoutExpired):
            java.wait(_DYING_S)
        if java.returncode is None:
            raise
        raise Fatal(
            f"Spark's JVM has ended with {_ending(java.returncode)}",
            where=f"process {java.pid}",
            next_step="if it was killed for want of memory, which the system's log says, give the driver more or set "
            "spark.driver.memory; the next start goes on where progress is recorded",
        ) from error


def _ending(code: int) -> str:
    return f"the code {code}" if code >= 0 else f"the signal {signal.Signals(-code).name}"


def _own_build(master: str | None) -> Mapping[str, str]:
    """For workers that may run from other files than this process."""
    found = None if master is not None and master.partition("[")[0] == "local" else build()
    return {} if found is None else {f"spark.executorEnv.{BUILD}": found}


def _begin_agent(pipeline: Pipeline) -> None:
    """It loads the tables while Spark starts. Whatever is wrong with it the preload finds, and says it."""

    def begin() -> None:
        with suppress(EnrichError, OSError, subprocess.SubprocessError):
            ensure_agent(pipeline, holder=os.getpid)

    threading.Thread(target=begin, daemon=True).start()


def _begin_workers(context: SparkContext) -> None:
    """Their daemon imports for seconds, by default when the first task needs it: now Spark still has to make a session,
    and this process to ask the brokers and to plan. Whatever is wrong the first task finds, and says it."""
    # As the tasks of queries have it: Spark starts a daemon for each environment.
    context.environment["SPARK_SIMPLIFIED_TRACEBACK"] = "1"

    def nothing(numbers: Iterable[int]) -> None:
        pass

    def begin() -> None:
        with suppress(Exception):  # also whatever a stage that ends at once has closed
            context.parallelize([0], 1).foreachPartition(nothing)

    threading.Thread(target=begin, daemon=True).start()


def _checked(pipeline: Pipeline, name: str, options: RunOptions) -> StageSettings:
    if name not in pipeline.stages:
        known = ", ".join(pipeline.stages) or "none"
        raise ConfigError(f"there is no stage `{name}`", next_step=f"choose from {known}")
    stage = pipeline.stages[name]
    if options.new_pin and stage.replay != Replay.deterministic:
        raise ConfigError("--new-pin is for stages with replay: deterministic", where=f"stages.{name}.replay")
    return stage_settings(stage, f"stages.{name}")


@contextmanager
def _signals_set(stop: threading.Event) -> Iterator[None]:
    def heard(signum: int, frame: FrameType | None) -> None:  # noqa: ARG001 - the signature of a handler
        stop.set()

    before = {number: signal.signal(number, heard) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
