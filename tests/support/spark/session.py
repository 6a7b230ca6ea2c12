"""A local Spark session that can read and write Kafka."""

import os
import signal
import sys

from pyspark.sql import SparkSession

from enrich.jars import jars
from tests.support.spark.quick_jvm import quick_jvm


def local_spark() -> SparkSession:
    # Workers would otherwise be started with the system's Python, which has none of our packages.
    os.environ["PYSPARK_PYTHON"] = sys.executable
    # Spark takes Ctrl-C for itself and never gives it back, in a process that runs all other tests too.
    on_interrupt = signal.getsignal(signal.SIGINT)
    session = (
        SparkSession.builder.master("local[2]")
        .appName("enrich-tests")
        .config("spark.jars", ",".join(str(jar) for jar in jars("spark")))
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.driver.extraJavaOptions", quick_jvm())
        .getOrCreate()
    )
    signal.signal(signal.SIGINT, on_interrupt)
    return session
