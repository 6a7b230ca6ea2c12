"""How tests start Spark's JVMs: code is compiled once instead of twice, and classes come from an archive of the JVM's
own making. Half the processor time, and half the wait, of a start. What a stage does is the same."""

import fcntl
import hashlib
import os
import shlex
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path

import pyspark
import pyspark.sql.functions as sql
from pyspark.sql.functions import arrow_udf  # type: ignore[attr-defined] # missing in its stubs

from enrich.dev.servers.java import find_java
from enrich.stage.spark.session import stage_session

_COMPILED_ONCE = "-XX:TieredStopAtLevel=1"
_SILENT = "-Xlog:disable -Xlog:all=error:stderr"


@cache
def quick_jvm() -> str:
    """Options of `java`. The first call of a checkout makes the archive, which takes a quarter of a minute."""
    archive = _archive()
    if not archive.exists():
        with archive.with_suffix(".lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)  # the workers of a run ask at the same time
            if not archive.exists():
                _make(archive)
    # The JVM looks whether the archive fits its class path, and does without it otherwise; it need not say so.
    return f"{_COMPILED_ONCE} -XX:SharedArchiveFile={shlex.quote(str(archive))} {_SILENT}"


def _archive() -> Path:
    java = subprocess.run([find_java(), "-version"], capture_output=True, check=True).stderr
    made_for = hashlib.sha256(java + pyspark.__version__.encode() + Path(__file__).read_bytes()).hexdigest()
    return Path(sys.prefix) / f"spark-classes-{made_for[:12]}.jsa"


def _make(archive: Path) -> None:
    with tempfile.TemporaryDirectory(dir=archive.parent) as folder:
        made = Path(folder) / archive.name
        options = f"{_COMPILED_ONCE} -XX:ArchiveClassesAtExit={shlex.quote(str(made))} {_SILENT}"
        subprocess.run(
            [sys.executable, "-m", "tests.support.quick_jvm", options, folder],
            # Spark's daemon of workers has to find this project's packages, wherever the tests were started.
            env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
            check=True,
            timeout=300,
            capture_output=True,
        )
        for older in archive.parent.glob("spark-classes-*.jsa"):
            older.unlink()  # 160 MB each; a JVM that uses one has it mapped
        made.replace(archive)


def _load_what_stages_load(options: str, folder: str) -> None:
    """A stream through a Python worker, JSON in and out, counted."""
    session = stage_session("classes", master="local[2]", settings={"spark.driver.extraJavaOptions": options})
    same = arrow_udf(lambda numbers: numbers, returnType="long")
    ticks = session.readStream.format("rate-micro-batch").option("rowsPerBatch", 100).load()
    read = sql.from_json(sql.to_json(sql.struct("value")), "value long")
    rows = ticks.select("timestamp", read.value.alias("value")).select("*", same("value").alias("same"))
    rows = rows.observe("counted", sql.count(sql.lit(1)), sql.percentile_approx("value", 0.5))
    query = rows.writeStream.format("noop").option("checkpointLocation", f"{folder}/checkpoint").start()
    while not query.lastProgress and query.isActive:
        query.awaitTermination(1)
    query.stop()
    session.stop()


if __name__ == "__main__":
    _load_what_stages_load(sys.argv[1], sys.argv[2])
