"""Users' expressions that fail for one event are null for that event.

Without ANSI most of Spark's functions are null by themselves. Some throw all the same, as `timestamp_millis` of a large
number does, and the event would end the stage for ever.
"""

import json
from typing import Any

from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as sql

_CATALYST = "org.apache.spark.sql.catalyst.expressions"
_NEVER_FAIL = frozenset({"Alias", "AttributeReference", "GetStructField", "Literal"})
# They fill a builder that a failure leaves half full: the next event's map would have entries of this one.
_KEEP_STATE = frozenset(
    {"CreateMap", "MapFromArrays", "MapFromEntries", "MapConcat", "StringToMap", "TransformKeys", "MapZipWith"}
)


def tried(spark: SparkSession, column: Column, classes: frozenset[str]) -> Column:
    """The column, null where it fails: by Spark's own `try`, around any expression. `classes`: see `classes_of`."""
    if classes <= _NEVER_FAIL or classes & _KEEP_STATE:
        return column
    jvm: Any = spark._jvm
    columns = jvm.org.apache.spark.sql.classic.ExpressionUtils
    # Spark computes what two expressions share ahead of both, outside of the `try`. But not what stands below a
    # condition, as long as it cannot tell how that will end.
    guarded: Any = sql.when(sql.spark_partition_id() >= 0, column)
    attempt = getattr(jvm, f"{_CATALYST}.TryEval")(columns.expression(guarded._jc))
    return Column(columns.column(attempt))


def classes_of(plan: Any) -> frozenset[str]:
    """The classes of all expressions in a resolved plan of the JVM, without their packages."""
    found: set[str] = set()
    nodes = json.loads(plan.expressions().apply(0).toJSON())
    # Parents stand before their children; of each that is still to have some: its class, and how many.
    parents: list[tuple[str, int]] = []
    for node in nodes:
        name = str(node["class"]).rpartition(".")[2]
        parent, missing = parents.pop() if parents else ("", 1)
        if missing > 1:
            parents.append((parent, missing - 1))
        if node["num-children"]:
            parents.append((name, node["num-children"]))
        # The map of what it says: it fails whatever becomes of that.
        if not (name == "CreateMap" and parent == "RaiseError"):
            found.add(name)
    return frozenset(found)
