"""How tests start Spark's JVMs: code is compiled once instead of twice, classes come from an archive of the JVM's own
making, one thread collects memory. Half the processor time, and half the wait, of a start. What a stage does is the
same."""

import shlex
import sys
from functools import cache
from pathlib import Path

import pyspark
import pyspark.sql.functions as sql
from pyspark.sql.functions import arrow_udf  # type: ignore[attr-defined] # missing in its stubs

from enrich.stage.spark.session import stage_session
from tests.support.class_archive import QUICK, with_archive


@cache
def quick_jvm() -> str:
    """Options of `java`. The first call of a checkout makes the archive, which takes a quarter of a minute."""
    made_for = pyspark.__version__.encode() + Path(__file__).read_bytes()
    return shlex.join([*QUICK, *with_archive("tests.support.quick_jvm", made_for)])


def _load_what_stages_load(options: str, folder: str) -> None:
    """A stream through a Python worker, JSON in and out, counted."""
    options = f"{shlex.join(QUICK)} {options}"
    session = stage_session("classes", master="local[2]", settings={"spark.driver.extraJavaOptions": options})
    same = arrow_udf(lambda numbers: numbers, returnType="long")
    ticks = session.readStream.format("rate-micro-batch").option("rowsPerBatch", 100).load()
    read = sql.from_json(sql.to_json(sql.struct("value")), "value long")
    rows = ticks.select("timestamp", read.value.alias("value")).select("*", same("value").alias("same"))
    rows = rows.observe("counted", sql.count(sql.lit(1)), sql.collect_list("same"))
    query = rows.writeStream.format("noop").option("checkpointLocation", f"{folder}/checkpoint").start()
    while not query.lastProgress and query.isActive:
        query.awaitTermination(1)
    query.stop()
    session.stop()


if __name__ == "__main__":
    _load_what_stages_load(sys.argv[1], sys.argv[2])
