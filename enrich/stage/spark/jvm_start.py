"""How the JVM of a stage starts that runs on one machine: with classes from an archive, and compiled with patience.

`python -m enrich.stage.spark.jvm_start` makes the archive, which takes a quarter of a minute. Set-up does it.
"""

import hashlib
import logging
import os
import shlex
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyspark

from enrich.jars.cache import cache_folder
from enrich.stage.java import java_class

_PATIENT = (
    "-XX:Tier4InvocationThreshold=50000",
    "-XX:Tier4MinInvocationThreshold=6000",
    "-XX:Tier4CompileThreshold=150000",
    "-XX:Tier4BackEdgeThreshold=400000",
)
"""Ten times the defaults: what a start runs through is not worth the second compiler. It took a third of the processor
time until the first output, while the events waited for the same cores (measured)."""
_QUIET = "-Xlog:cds*=off"
"""An archive that does not fit this Java is left alone by it. It need not say so at each start."""
_FORM = 1
"""Raised when what is loaded into the archive changes."""
_DEADLINE_S = 120


def start_options() -> str:
    """Options of `java`, with the archive if there is one."""
    found = next((path for path in _places() if path.is_file()), None)
    shared = [] if found is None else [f"-XX:SharedArchiveFile={found}", _QUIET]
    return shlex.join([*_PATIENT, *shared])


def _places() -> Iterator[Path]:
    """Beside the packages, or in the user's cache where nobody may write there. Another Java has another archive."""
    home = os.environ.get("JAVA_HOME")
    java = shutil.which(f"{home}/bin/java" if home else "java")
    changed_ns = 0 if java is None else Path(java).stat().st_mtime_ns
    made_for = f"{pyspark.__version__} {java and os.path.realpath(java)} {changed_ns} {_FORM}"
    name = f"spark-{hashlib.sha256(made_for.encode()).hexdigest()[:12]}.jsa"
    yield Path(sys.prefix) / "share" / "enrich" / name
    yield cache_folder().parent / "classes" / name


def make_archive() -> Path:
    """Into the first of the places that can be written, unless there is one."""
    from enrich.stage.spark.session import stage_session

    known = next((place for place in _places() if place.is_file()), None)
    if known is not None:
        return known
    target = next(place for place in _places() if _can_be_written(place.parent))
    with tempfile.TemporaryDirectory(dir=target.parent) as folder:
        made = Path(folder) / target.name
        options = f"-XX:ArchiveClassesAtExit={made} {_QUIET}"
        session = stage_session("classes", master="local[2]", settings={"spark.driver.extraJavaOptions": options})
        session.sparkContext.setLogLevel("OFF")  # a batch is cut off, and the clients find no broker
        gateway: Any = session.sparkContext._gateway
        try:
            _load_what_stages_load(session, Path(folder) / "checkpoint")
        finally:
            session.stop()
            # The JVM writes the archive as it ends.
            gateway.shutdown()
            gateway.proc.stdin.close()
            gateway.proc.wait(_DEADLINE_S)
        made.replace(target)
    return target


def _can_be_written(folder: Path) -> bool:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:
        return False
    return os.access(folder, os.W_OK)


def _load_what_stages_load(session: Any, checkpoint: Path) -> None:
    """A stream through a Python worker, JSON in and out, counted; and the Kafka clients, which need no broker."""
    from pyspark.sql import functions as sql
    from pyspark.sql.functions import arrow_udf  # type: ignore[attr-defined] # missing in its stubs

    same = arrow_udf(lambda numbers: numbers, returnType="long")
    ticks = session.readStream.format("rate-micro-batch").option("rowsPerBatch", 100).load()
    read = sql.from_json(sql.to_json(sql.struct("value")), "value long")
    rows = ticks.select("timestamp", read.value.alias("value")).select("*", same("value").alias("same"))
    rows = rows.select("*", sql.explode_outer(sql.array("same")).alias("each"))
    rows = rows.observe("counted", sql.count(sql.lit(1)), sql.collect_list("same"))
    query = rows.writeStream.format("noop").option("checkpointLocation", str(checkpoint)).start()
    while not query.lastProgress and query.isActive:
        query.awaitTermination(1)
    query.stop()
    nowhere = {"bootstrap.servers": "127.0.0.1:9", "group.id": "classes"}
    for client, way in (("producer.KafkaProducer", "serializer"), ("consumer.KafkaConsumer", "deserializer")):
        properties = java_class("java.util.Properties")()
        coding = f"org.apache.kafka.common.serialization.ByteArray{way.title()}"
        for name, value in {**nowhere, f"key.{way}": coding, f"value.{way}": coding}.items():
            properties.put(name, value)
        java_class(f"org.apache.kafka.clients.{client}")(properties).close()
    source = {"kafka.bootstrap.servers": nowhere["bootstrap.servers"], "subscribe": "classes"}
    session.readStream.format("kafka").options(**source).load()


if __name__ == "__main__":
    logging.getLogger("py4j").setLevel(logging.ERROR)
    sys.stdout.write(f"{make_archive()}\n")
