"""The Spark session of a stage: connector, workers' Python, and the settings on which its guarantees rely."""

import logging
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from types import FrameType
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark import SparkConf, SparkContext
from pyspark.errors import PySparkRuntimeError
from pyspark.logger import PySparkLogger
from pyspark.sql import SparkSession

from enrich.base.errors import ConfigError, Fatal
from enrich.base.interrupts import end_at_once
from enrich.base.logs import logs_are_json
from enrich.config.messages.masking import SECRET_NAMES
from enrich.jars import jars
from enrich.stage.java import java_class
from enrich.stage.spark.deaf_children import deaf_children
from enrich.stage.spark.jvm_start import start_options
from enrich.stage.spark.refusals import first_reason

_JSON_LINES = "org/apache/spark/log4j2-json-layout.properties"
_CONNECTOR = "spark-sql-kafka-0-10_*.jar"
_CONNECTORS_CLASS = "org/apache/spark/sql/kafka010/KafkaSourceProvider.class"

_CHOSEN = "--master, --conf"
_JAVA = "spark.driver.extraJavaOptions"

_FIXED: Mapping[str, str] = {
    # Times in the output are UTC, wherever the driver runs.
    "spark.sql.session.timeZone": "UTC",
    # An expression that fails for one event is null for that event: it must not fail the stage.
    "spark.sql.ansi.enabled": "false",
    # A duplicate key in a map must not fail the stage either. The last entry wins, as everywhere in events.
    "spark.sql.mapKeyDedupPolicy": "LAST_WIN",
    "spark.redaction.regex": SECRET_NAMES,
    "spark.sql.redaction.options.regex": SECRET_NAMES,
    # TCP on the loopback interface costs 45 ms per small batch, and opens a port that no worker needs.
    "spark.python.unix.domain.socket.enabled": "true",
    # By default the JVM's folder for temporary files. On YARN that is deep inside a container's folder: longer than the
    # 107 bytes that the path of a socket may have, and no worker starts.
    "spark.python.unix.domain.socket.dir": "/tmp",  # noqa: S108 - each has a random name, and is its owner's alone
    # Workers share what their daemon imported: this saves 140 MiB and half a second each.
    "spark.python.daemon.module": "enrich.stage.daemon",
    # Workers that get whole events briefly hold four copies of a batch. Spark's default is 64 MiB.
    "spark.sql.execution.arrow.maxBytesPerBatch": "16m",
    # The progress bar overwrites log lines.
    "spark.ui.showConsoleProgress": "false",
    # If an executor is lost during the preload, Spark checks again after this time. The default is 15 s.
    "spark.scheduler.barrier.maxConcurrentTasksCheck.interval": "1s",
    # Streams do not support it. Set here, so that no stage begins with a warning.
    "spark.sql.adaptive.enabled": "false",
}


def stage_session(
    name: str,
    *,
    master: str | None = None,
    settings: Mapping[str, str] | None = None,
    started: Callable[[SparkContext], None] | None = None,
) -> SparkSession:
    """Starts Spark, or joins the session that spark-submit made. `settings` are the user's and override ours.

    `started` is called when tasks can run, a second before there is a session. Who heeds Ctrl-C now does so after it.
    """
    given = dict(settings or {})
    chosen = master or given.get("spark.master") or os.environ.get("MASTER")
    own = {"spark.app.name": name, **({"spark.master": chosen} if chosen else {}), **_FIXED}
    if is_local(chosen):
        # Without it workers are started with the system's Python.
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        given[_JAVA] = f"{start_options()} {given.get(_JAVA, '')}".strip()
        own |= {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1", "spark.ui.enabled": "false"}
    # The JVM of spark-submit runs already, and takes no jars any more.
    submitted = "PYSPARK_GATEWAY_PORT" in os.environ
    archives = [] if submitted else connector_jars()
    if archives:
        own["spark.jars"] = ",".join(str(path) for path in archives)
    wanted: dict[str, Any] = {**own, **given}
    # PySpark logs each expression that it cannot resolve, with a page of Java. Our own error says the same in a line.
    PySparkLogger.getLogger("SQLQueryContextLogger").setLevel(logging.CRITICAL + 1)
    heeds = signal.getsignal(signal.SIGINT)
    with deaf_children(), _said_in_a_line():
        context = SparkContext.getOrCreate(SparkConf().setAll(list(wanted.items())))
        # Spark has taken Ctrl-C for itself: it would ask Java to cancel jobs, in the middle of another request.
        if heeds is not None and threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGINT, heeds)
        if started is not None:
            started(context)
        spark = SparkSession.builder.config(map=wanted).getOrCreate()
    if submitted:
        _require_connector(spark)
    if logs_are_json():
        _log_json(spark)
    return spark


@contextmanager
def command_session(
    name: str, *, master: str | None = None, settings: Mapping[str, str] | None = None
) -> Iterator[SparkSession]:
    """The session of a command, stopped after the block. Ctrl-C and SIGTERM end the process at once, and Java with it;
    while Java starts, as soon as it has."""
    heard: list[int] = []

    def end(signum: int, frame: FrameType | None) -> None:  # noqa: ARG001 - the signature of a handler
        # No exception: while Java starts it would leave that behind for good, which could not write its address any
        # more, and would never see that this process has ended; in the middle of a request to Java it shows tracebacks,
        # and nothing can be asked after it. Once Java runs nothing is waited for: Spark may wait hours for a cluster.
        heard.append(signum)
        if SparkContext._gateway is not None:
            end_at_once(signum)

    before = {number: signal.signal(number, end) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        spark = stage_session(name, master=master, settings=settings)
        if heard:
            end_at_once(heard[0])
        try:
            yield spark
        finally:
            spark.stop()
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def _said_in_a_line() -> Iterator[None]:
    """Most often it is a wrong master or setting, of which Java says a page, and the reason somewhere in it."""
    try:
        yield
    except PySparkRuntimeError as error:
        raise ConfigError(
            "Spark could not start: Java ended at once", where=_CHOSEN, next_step="see what Java says above"
        ) from error
    except Py4JJavaError as error:
        thrown: Any = error.java_exception
        kind = ConfigError if thrown.getClass().getSimpleName() == "SparkException" else Fatal
        raise kind(
            f"Spark could not start: {first_reason(error)}",
            where=_CHOSEN,
            next_step="see what Spark says above; try again",
        ) from error


def _require_connector(spark: SparkSession) -> None:
    if _resource(_CONNECTORS_CLASS) is None:
        spark.stop()
        raise ConfigError(
            "Spark has no connector for Kafka",
            where="spark-submit",
            next_step=f"add `--packages org.apache.spark:spark-sql-kafka-0-10_2.13:{spark.version}`",
        )


def is_local(master: str | None) -> bool:
    """Whether driver and executors are one process of this machine."""
    return master is not None and master.startswith("local")


def _log_json(spark: SparkSession) -> None:
    """Makes Spark's own log lines JSON. At run time, because Spark ignores its setting for it if the driver is
    Python."""
    place = _resource(_JSON_LINES)
    if place is not None:
        java_class("org.apache.logging.log4j.core.config.Configurator").reconfigure(place.toURI())
        spark.sparkContext.setLogLevel("WARN")


def _resource(name: str) -> Any:
    """Where it is in the jars; None if it is in none."""
    return java_class("java.lang.Thread").currentThread().getContextClassLoader().getResource(name)


def connector_jars() -> list[Path]:
    """The Kafka connector and its dependencies. Empty if PySpark's own folder has it, as in our image."""
    package = find_spec("pyspark")
    if package is not None and package.origin is not None:
        shipped = Path(package.origin).parent / "jars"
        if any(shipped.glob(_CONNECTOR)):
            return []
    return jars("spark")
