"""Spark's answers for expressions, as a stage asks for them, beside those of the workers."""

import re
from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession
from pyspark.sql import functions as sql
from pyspark.sql.pandas.types import from_arrow_schema, from_arrow_type

from enrich.stage.compute import Compiled, Compiler, NotCompiled
from enrich.stage.compute.kinds import all_nullable
from enrich.stage.plan.tried import classes_of, tried
from tests.support.spark.odd_columns import SCHEMA

_FAILS = re.compile("timestamp_(seconds|millis)|to_timestamp|to_date|date_trunc|AS timestamp")


class SparkAnswers:
    """One session, set as `stage_session` sets it."""

    def __init__(self, spark: SparkSession) -> None:
        spark.conf.set("spark.sql.session.timeZone", "UTC")
        spark.conf.set("spark.sql.ansi.enabled", "false")
        spark.conf.set("spark.sql.codegen.maxFields", "10000")
        self._spark = spark
        self._schema = from_arrow_schema(SCHEMA)
        self.compiler = Compiler(spark, self._schema)
        self.refused: Counter[str] = Counter()
        """How often which reason was given."""
        self.compared = 0

    def compiled(self, text: str) -> Compiled | None:
        """None if workers do not evaluate it, or if Spark cannot read it."""
        try:
            found = self.compiler.compile(text)
        except AnalysisException as error:
            self.refused[f"Spark: {error.getCondition()}"] += 1
            return None
        if isinstance(found, NotCompiled):
            self.refused[found.reason.rpartition("since ")[2]] += 1
            return None
        return found

    def of(self, columns: Mapping[str, pa.Array], found: Sequence[Compiled], *, in_java: bool = False) -> pa.Table:
        """Spark's own answers, one column for each expression. `in_java`: by code that Spark generates, as in a stage;
        without it, Spark evaluates the same expressions as trees, which spares the compilation."""
        self._spark.conf.set("spark.sql.execution.arrow.localRelationThreshold", "0b" if in_java else "48MB")
        frame = self._spark.createDataFrame(pa.table(dict(columns), schema=SCHEMA), self._schema)
        return frame.select(*(self._column(frame, each).alias(str(n)) for n, each in enumerate(found))).toArrow()

    def _column(self, frame, each):
        column = sql.expr(each.text)
        if not _FAILS.search(each.text):
            return column  # if it failed all the same, the whole would
        plan = frame.select(column.alias("it"))._jdf.queryExecution().analyzed()
        attempt = tried(column, classes_of(plan))
        # PySpark refuses a null object that has a constant in it, since that is NOT NULL.
        return attempt.cast(from_arrow_type(each.kind)) if pa.types.is_struct(each.kind) else attempt

    def require_same(self, columns: Mapping[str, pa.Array], texts: Sequence[str], *, in_java: bool = False) -> int:
        """Compares all that workers evaluate, and says how many that are."""
        found = [each for each in map(self.compiled, texts) if each is not None]
        count = len(next(iter(columns.values())))
        spark = self.of(columns, found, in_java=in_java)
        wrong = []
        for number, each in enumerate(found):
            ours, theirs = each.evaluate(columns, count), spark.column(number).combine_chunks()
            theirs = theirs.cast(all_nullable(theirs.type))
            text = difference(ours, theirs, each)
            if text:
                used = {path[0] for path in each.fields}
                at = _first(ours, theirs)
                row = {name: columns[name][at].as_py() for name in sorted(used)} if at is not None else {}
                wrong.append(f"{each.text}\n    {text}\n    of {row!r}")
        self.compared += len(found)
        assert not wrong, "\n".join(["workers and Spark differ:", *wrong])
        return len(found)


def difference(ours: pa.Array, theirs: pa.Array, each: Compiled) -> str:
    """In words; empty if there is none."""
    if not ours.type == theirs.type == each.kind:
        return f"type {ours.type} (said {each.kind}), not {theirs.type}"
    ours.validate(full=True)
    at = _first(ours, theirs)
    return "" if at is None else f"{ours[at]!r}, not {theirs[at]!r}"


def _first(ours: pa.Array, theirs: pa.Array) -> int | None:
    if ours.type != theirs.type:
        return None
    differs = np.flatnonzero(_told(ours) != _told(theirs))
    return int(differs[0]) if len(differs) else None


def _told(column: pa.Array) -> np.ndarray:
    """Each value as something that equals only itself: a number by its bits, and all NaN alike."""
    if pa.types.is_struct(column.type):
        parts = zip(*map(_told, column.flatten()), strict=True)
        told = [part if is_valid else None for part, is_valid in zip(parts, column.is_valid().to_pylist(), strict=True)]
        found = np.empty(len(column), object)
        found[:] = told
        return found
    if pa.types.is_floating(column.type):
        return np.array([None if value is None else value.hex() for value in column.to_pylist()], object)
    if pa.types.is_timestamp(column.type):
        column = column.cast(pa.int64())
    elif pa.types.is_date(column.type):
        column = column.cast(pa.int32())
    values = np.empty(len(column), object)
    values[:] = column.to_pylist()
    return values
