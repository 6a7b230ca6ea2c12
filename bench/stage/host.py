"""A Spark driver for benchmarks: one session, in which stages run one after the other, as `enrich run` runs them.

python -m bench.stage.host     first line of standard input: master and settings; then a line for each stage to run,
                               with a line after it when that stage shall stop; one line back for each
"""

import json
import os
import select
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO, Any
from unittest.mock import patch

import psutil
from pyspark.sql import SparkSession

from bench.harness import family_cpu_seconds
from bench.kit.agents import family
from bench.kit.processes import started, tell
from bench.stage.contenders import OURS, WITH_TABLES, lookups_by
from enrich.config import KafkaSection, Profile, load
from enrich.stage.run.stage_run import StageRun
from enrich.stage.run.start import RunOptions
from enrich.stage.spark.profiles import sink_options, stage_settings
from enrich.stage.spark.session import stage_session

_START_S, _STOP_S = 300, 120
# As docs/stages-explained.md advises.
_COLLECTOR = "-XX:+UseParallelGC"
_JVMS = {"spark.driver.extraJavaOptions": _COLLECTOR, "spark.executor.extraJavaOptions": _COLLECTOR}


class StageHost:
    """The driver, from outside."""

    def __init__(
        self, pipeline: Path, *, master: str = "local[*,4]", settings: Mapping[str, str] | None = None
    ) -> None:
        root = str(Path(__file__).resolve().parents[2])
        # Spark's workers import from this folder too.
        environment = {**os.environ, "PYTHONPATH": root}
        self._process = started("bench.stage.host", environment=environment)
        self._pipeline = str(pipeline)
        tell(self._process, {"master": master, "settings": {**_JVMS, **(settings or {})}})
        self._hear(_START_S)

    def begin(self, stage: str, lookups: str = OURS, where: str = "") -> None:
        """Starts a stage of the pipeline; see `lookups_by`."""
        tell(self._process, {"pipeline": self._pipeline, "stage": stage, "lookups": lookups, "where": where})

    def end(self) -> None:
        tell(self._process, "stop")
        self._hear(_STOP_S)

    def require_running(self) -> None:
        """Raises RuntimeError when the stage ended by itself."""
        if select.select([self._out], [], [], 0)[0]:
            raise RuntimeError(f"the stage ended: {self._out.readline().strip() or 'its driver is gone'}")

    def cpu_seconds(self) -> float:
        """Of the driver, its JVM, executors and Python workers."""
        return family_cpu_seconds(self._process.pid)

    @property
    def pid(self) -> int:
        return self._process.pid

    def kill_workers(self) -> None:
        """kill -9 of all Python workers of the driver's: others' output would hide the pause of one."""
        daemons = [each for each in family(self._process.pid) if "enrich.stage.daemon" in _command(each)]
        for each in daemons:
            if _command(psutil.Process(each).ppid()) == _command(each):
                os.kill(each, signal.SIGKILL)

    def close(self) -> None:
        try:
            self._process.communicate(timeout=_STOP_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
            raise

    @property
    def _out(self) -> IO[str]:
        if self._process.stdout is None:
            raise RuntimeError("the driver has no pipe")
        return self._process.stdout

    def _hear(self, patience_s: float) -> None:
        if not select.select([self._out], [], [], patience_s)[0]:
            raise RuntimeError(f"the driver says nothing for {patience_s:g} s")
        said = self._out.readline().strip()
        if said != "done":
            raise RuntimeError(f"the driver failed: {said or 'it is gone'}")


@contextmanager
def stage_host(pipeline: Path, **options: Any) -> Iterator[StageHost]:
    host = StageHost(pipeline, **options)
    try:
        yield host
    finally:
        host.close()


def main() -> None:
    said = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what Spark prints is not for the benchmark to read
    start = json.loads(sys.stdin.readline())
    spark = stage_session("bench", master=start["master"], settings=start["settings"])
    said.write("done\n")
    said.flush()
    for line in sys.stdin:
        asked = json.loads(line)
        pipeline = load(Path(asked["pipeline"]))
        stop = threading.Event()
        threading.Thread(target=_wait_for_stop, args=[stop]).start()
        name = asked["stage"]
        with ExitStack() as held:
            held.enter_context(lookups_by(asked["lookups"], asked["where"]))
            if asked["lookups"] not in WITH_TABLES:
                held.enter_context(patch("enrich.stage.run.stage_run.preload"))
            held.enter_context(patch("enrich.stage.run.batches.sink_options", _forgetful))
            settings = stage_settings(pipeline.stages[name])
            held.enter_context(_set(spark, settings.session))
            StageRun(spark, pipeline, name, settings, RunOptions(), stop).run()
        said.write("done\n")
        said.flush()
    spark.stop()


@contextmanager
def _set(spark: SparkSession, settings: Mapping[str, str]) -> Iterator[None]:
    """A stage's own settings, for this stage only: after one with `profile: realtime` batches would run without
    generated code, at half their speed."""
    names = [name for name in settings if name.startswith("spark.sql.")]  # others are a session's from its start
    before = {name: spark.conf.get(name, None) for name in names}
    for name in names:
        spark.conf.set(name, settings[name])
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                spark.conf.unset(name)
            else:
                spark.conf.set(name, value)


def _command(pid: int) -> str:
    return " ".join(psutil.Process(pid).cmdline())


def _forgetful(kafka: KafkaSection, profile: Profile) -> Mapping[str, str]:
    """All stages of this process share a producer, which would ask for the deleted topics of those before for minutes,
    each second, and complain at length."""
    return {**sink_options(kafka, profile), "kafka.metadata.max.idle.ms": "5000"}


def _wait_for_stop(stop: threading.Event) -> None:
    sys.stdin.readline()
    stop.set()


if __name__ == "__main__":
    main()
