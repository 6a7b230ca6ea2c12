"""A stage's DataFrame under test: events in, its records and its executed plan out."""

from collections.abc import Iterable, Sequence
from typing import Any
from unittest.mock import patch

from pyspark.sql import DataFrame, SparkSession

from enrich.stage.compute import NotCompiled
from enrich.stage.plan.expressions import Expressions
from enrich.stage.plan.limits import Limits
from enrich.stage.plan.plan import StagePlan
from enrich.stage.progress.source_versions import SourceVersions
from tests.support.stage.world import StageWorld

VERSIONS = SourceVersions("events", "an-id", 2, [0, 0, 50])
"""Of `source_of`."""


def source_of(spark: SparkSession, events: Sequence[bytes | None]) -> DataFrame:
    """Events as Spark's Kafka source gives them."""
    rows = [(f"k{i}".encode(), value, "events", i % 3, i, _headers(i)) for i, value in enumerate(events)]
    schema = (
        "key binary, value binary, topic string, partition int, offset bigint, "
        "headers array<struct<key:string,value:binary>>"
    )
    frame = spark.createDataFrame(rows, schema)
    return frame.selectExpr("*", "timestamp_millis(1000) AS timestamp").repartition(2)


def _headers(number: int) -> list[tuple[str, bytes]] | None:
    """An odd event has none; every fourth one says where it came in."""
    earlier = [] if number % 4 else [("enrich.origin", b"first/1/%d" % number)]
    return None if number % 2 else [("trace", b"t"), *earlier, ("enrich.reason", b"old")]


def origin_of(number: int) -> bytes:
    """What the output of that event should say."""
    return b"first/1/%d" % number if number % 4 == 0 else b"events/%d/%d" % (number % 3, number)


def records(
    spark: SparkSession, world: StageWorld, stage: str, events: Sequence[bytes | None], **limits: Any
) -> DataFrame:
    return StagePlan(spark, world.pipeline, stage, Limits(**limits), VERSIONS).records(source_of(spark, events))


def written_back(rows: Iterable[Any], topic: str) -> tuple[list[Any], list[Any]]:
    """The rows for that topic, and the others."""
    found: tuple[list[Any], list[Any]] = ([], [])
    for row in rows:
        found[row.topic != topic].append(row)
    return found


def python_operators(frame: DataFrame) -> list[tuple[str, int]]:
    """The Python operators of a plan that has run, each with the rows that it evaluated."""
    waiting, found = [frame._jdf.queryExecution().executedPlan()], []
    while waiting:
        node = waiting.pop()
        if "Python" in node.nodeName():
            found.append((node.nodeName(), node.metrics().apply("pythonNumRowsReceived").value()))
        children = node.children().iterator()
        while children.hasNext():
            waiting.append(children.next())
    return found


def seen(rows: Iterable[Any]) -> dict[int, tuple[str, bytes, dict[str, bytes]]]:
    """What was made of each event, by its number."""
    found = {}
    for row in rows:
        headers = {header.key: bytes(header.value) for header in row.headers or []}
        key = bytes(row.key).decode()
        # Of a dead letter: topic/partition/offset/stage.
        number = int(key.split("/")[2] if "/" in key else key.lstrip("k"))
        assert number not in found, "an event has two records"
        found[number] = (row.topic.rpartition(".")[2], bytes(row.value), headers)
    return found


def by_spark() -> Any:
    """Inside the block workers evaluate nothing."""
    return patch.object(Expressions, "compiled", lambda _, text: NotCompiled(text, f"Spark evaluates `{text}`"))
