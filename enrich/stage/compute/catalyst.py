"""Reads an expression as Spark has parsed and resolved it, so that names, types and implicit casts are Spark's own. In
the driver, once for each expression."""

from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql import functions as sql
from pyspark.sql.types import StructType

from enrich.stage.compute.compiled import Compiled, NotCompiled
from enrich.stage.compute.kinds import kind_of
from enrich.stage.compute.nodes import Field
from enrich.stage.compute.rules import RULES, Reader
from enrich.stage.compute.tree import NotHere, Tree
from enrich.stage.java import java_class

_SETTINGS = {
    "spark.sql.ansi.enabled": "FALSE",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.legacy.timeParserPolicy": "CORRECTED",
    "spark.sql.icu.caseMappings.enabled": "TRUE",
}
"""With other values the same expressions have other answers."""
_LANGUAGES = frozenset({"az", "el", "hy", "lt", "tr"})
"""Their letters change case by rules of their own."""


class Compiler:
    """Compiles expressions over one schema."""

    def __init__(self, spark: SparkSession, schema: StructType) -> None:
        self._unusual = _unusual(spark)
        self._empty = spark.createDataFrame([], schema)
        attributes = self._analyzed(self._empty).output()
        # By number: two names may differ in case only, and an expression may write a name in another case.
        self._fields = {
            attributes.apply(index).exprId().id(): Field((column.name,), kind_of(column.dataType))
            for index, column in enumerate(schema)
        }

    def compile(self, text: str) -> Compiled | NotCompiled:
        """Raises what Spark raises for an expression that it cannot read."""
        plan = self._analyzed(self._empty.select(sql.expr(text).alias("it")))
        if self._unusual:
            return NotCompiled(text, f"Spark evaluates `{text}`, since {self._unusual} is set to another value")
        try:
            root = Reader(RULES, self._fields).whole(Tree(plan.expressions().apply(0).child()))
        except NotHere as error:
            return NotCompiled(text, f"Spark evaluates `{text}`, since {error}")
        except RecursionError:
            return NotCompiled(text, f"Spark evaluates `{text}`, since it is nested too deeply")
        return Compiled(text, root)

    @staticmethod
    def _analyzed(selected: Any) -> Any:
        return selected._jdf.queryExecution().analyzed()


def _unusual(spark: SparkSession) -> str | None:
    """The first setting that has another value than those for which our answers are Spark's."""
    for name, value in _SETTINGS.items():
        if str(spark.conf.get(name)).upper() != value:
            return name
    language = java_class("java.util.Locale").getDefault().getLanguage()
    return "the language of the JVM" if language in _LANGUAGES else None


def compile_expression(spark: SparkSession, schema: StructType, text: str) -> Compiled | NotCompiled:
    """One expression; for several over the same schema, a `Compiler` is quicker."""
    return Compiler(spark, schema).compile(text)
