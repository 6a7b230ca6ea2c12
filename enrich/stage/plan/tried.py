"""Makes users' expressions null for an event for which they fail.

Without ANSI mode most of Spark's functions return null then. Some throw all the same, as `timestamp_millis` of a large
number does, and that event would fail the stage at each start.
"""

import json
from typing import Any

from pyspark.sql import Column
from pyspark.sql import functions as sql

from enrich.stage.java import java_class

_CATALYST = "org.apache.spark.sql.catalyst.expressions"
_NEVER_FAIL = frozenset({"Alias", "AttributeReference", "GetStructField", "Literal"})
# They fill a builder. A failure leaves it half full, and the next event's map would have entries of this one.
_KEEP_STATE = frozenset(
    {"CreateMap", "MapFromArrays", "MapFromEntries", "MapConcat", "StringToMap", "TransformKeys", "MapZipWith"}
)


def tried(column: Column, classes: frozenset[str]) -> Column:
    """The column, null if it fails: Spark's own `try` around any expression. `classes`: see `classes_of`."""
    if classes <= _NEVER_FAIL or classes & _KEEP_STATE:
        return column
    columns = java_class("org.apache.spark.sql.classic.ExpressionUtils")
    # Spark computes common subexpressions first, outside of the `try`, but not those below a condition whose result it
    # cannot know in advance.
    guarded: Any = sql.when(sql.spark_partition_id() >= 0, column)
    attempt = java_class(f"{_CATALYST}.TryEval")(columns.expression(guarded._jc))
    return Column(columns.column(attempt))


def classes_of(plan: Any) -> frozenset[str]:
    """The classes of all expressions in a resolved plan of the JVM, without their packages."""
    found: set[str] = set()
    nodes = json.loads(plan.expressions().apply(0).toJSON())
    # Parents come before their children. For each parent that still misses children: its class, and how many.
    parents: list[tuple[str, int]] = []
    for node in nodes:
        name = str(node["class"]).rpartition(".")[2]
        parent, missing = parents.pop() if parents else ("", 1)
        if missing > 1:
            parents.append((parent, missing - 1))
        if node["num-children"]:
            parents.append((name, node["num-children"]))
        # The map is of RaiseError's message: that expression fails in any case.
        if not (name == "CreateMap" and parent == "RaiseError"):
            found.add(name)
    return frozenset(found)
